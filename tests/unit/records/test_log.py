"""A rank's log: redrawn lines, growth that is read once, and what a full disk leaves of it."""

import pytest

from ddl.records.log import FIRST_BYTES, WIDEST, LogTail, section


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "rank-0.log"
    path.write_bytes(b"")
    return path


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


# What Keras' progress bar writes: backspaces over the line before, a carriage return, the line.
BAR = [
    b"\r1/3 [=>..] - loss: 2.50",
    b"\b" * 23 + b"\r2/3 [==>.] - loss: 2.25",
    b"\b" * 23 + b"\r3/3 [====] - 4s\x1b[K\n",
]


def test_progress_bar_is_one_current_line(log):
    tail, seen = LogTail(log), []
    for part in BAR:
        append(log, part)
        seen.append((list(tail.lines()), tail.current))
    assert seen == [([], "1/3 [=>..] - loss: 2.50"), ([], "2/3 [==>.] - loss: 2.25"), (["3/3 [====] - 4s"], "")]


@pytest.mark.parametrize(
    "written, shown",
    [
        (b"150 %\b\b\b\b\b7 %\b\b\b\b\b\b8 %\n", "8 %"),
        (b"50 %\r\x1b[K7 %\n", "7 %"),
        (b"\x1b[1;31mred\x1b[0m and \x1b]0;title\x07plain\n", "red and plain"),
        (b"before \xff\xfe after\n", "before \ufffd\ufffd after"),
        ("naïve\n".encode(), "naïve"),
        (b"windows\r\n", "windows"),
    ],
)
def test_a_line_is_what_a_terminal_would_show(log, written, shown):
    append(log, written)
    assert list(LogTail(log).lines()) == [shown]


def test_flood_is_skipped_up_to_its_last_part(tmp_path):
    log = tmp_path / "rank-0.log"
    log.write_text("first\n")
    tail = LogTail(log, last_bytes=100)
    assert list(tail.lines()) == ["first"] and tail.skipped_bytes == 0
    lines = [f"line {number:04}" for number in range(1000)]
    with log.open("a") as file:
        file.write("\n".join(lines) + "\n")
    seen = list(tail.lines())
    assert seen == lines[-len(seen) :] and 5 < len(seen) < 12
    assert tail.skipped_bytes == 10 * (1000 - len(seen))
    with log.open("a") as file:
        file.write("last\n")
    assert list(tail.lines()) == ["last"] and tail.skipped_bytes == 0


def test_three_lines_of_tensorflows_build_for_gpus_are_left_out(log):
    begin = "2026-11-28 03:22:03.898323: E external/local_xla/xla/stream_executor/cuda/cuda_"
    middle = "Unable to register cu{} factory: Attempting to register factory for plugin cu{} when one has already been registered"
    lines = [f"{begin}{file}.cc:9261] {middle.format(name, name)}" for file, name in (("dnn", "DNN"), ("fft", "FFT"))]
    kept = f"{begin}dnn.cc:407] There was an error before creating cudnn handle"
    append(log, "\n".join([*lines, kept, ""]).encode())
    assert list(LogTail(log).lines()) == [kept]


@pytest.mark.parametrize(
    "size, left", [(10, 0), (FIRST_BYTES + WIDEST, 0), (3_000_000, 3_000_000 - FIRST_BYTES - WIDEST)]
)
def test_section_of_a_log_has_its_beginning_and_its_end(log, size, left):
    text = bytes(97 + i % 26 for i in range(size)).decode()
    append(log, f"before\n{text}\rafter\n".encode())
    found = section(log, len("before\n"), len("before\n") + size)
    assert (found == text) == (left == 0)
    assert found[:10] == text[:10] and found[-10:] == text[-10:]
    assert (f"{left / 1e6:,.1f} MB" in found and str(log) in found) == bool(left)
    assert section(log, 0) != found and section(log.with_name("missing"), 0) == ""
