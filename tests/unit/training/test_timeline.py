"""Horovod's timeline is read as it is written, also where its job was ended in the middle."""

import json

import pytest

from course.training.timeline import Span, read, sent

# Two gradients that travel together, twice; then something else. Times in microseconds.
HEAD = """[
{"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros":1795}},
{"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}},
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "first"}},
{"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "second"}},
"""


def tensor(row, start):
    """One all-reduce: 100 µs of negotiation, 20 of copying, 50 of reducing, 10 beside them."""
    given = {"dtype": "float16" if row == 2 else "float32", "shape": "[3, 32]"}
    events = (
        ("B", 0, {"name": "NEGOTIATE_ALLREDUCE"}),
        ("X", 0, {"name": "0", "dur": 0}),
        ("E", 100, {}),
        ("B", 110, {"name": "ALLREDUCE"}),
        ("B", 115, {"name": "MEMCPY_IN_FUSION_BUFFER"}),
        ("E", 125, {}),
        ("B", 125, {"name": "GLOO_ALLREDUCE"}),
        ("E", 175, {}),
        ("B", 175, {"name": "MEMCPY_OUT_FUSION_BUFFER"}),
        ("E", 185, {}),
        ("E", 190, {"args": given}),
    )
    return ",".join(json.dumps({"ph": kind, "ts": start + at, "pid": row, **more}) for kind, at, more in events)


OTHER = '{"ph": "B", "name": "NEGOTIATE_ALLGATHER", "ts": 3000, "pid": 1},{"ph": "E", "ts": 3010, "pid": 1}'
TEXT = HEAD + ",\n".join([tensor(1, 0), tensor(2, 10), tensor(2, 1000), tensor(1, 1005), OTHER])


@pytest.fixture
def keep(tmp_path):
    def write(text):
        path = tmp_path / "timeline.json"
        path.write_text(text)
        return path

    return write


def test_a_tensor_has_its_phases(keep):
    spans = read(keep(TEXT + "]"))
    first = [span for span in spans if span.tensor == "first" and span.end_s < 0.001]
    microseconds = [(span.phase, round(1e6 * (span.end_s - span.start_s))) for span in first]
    phases = [("negotiation", 100), ("copying", 10), ("reducing", 50), ("copying", 10), ("queued", 80)]
    assert microseconds == phases
    assert {span.operation for span in first} == {"ALLREDUCE"}
    assert spans[-1] == Span("first", "ALLGATHER", "negotiation", 0.003, 0.00301)


def test_truncated_timeline_is_read(keep):
    whole = read(keep(TEXT + "]"))
    for end in range(len(HEAD), len(TEXT), 37):
        spans = read(keep(TEXT[:end]))
        assert spans == whole[: len(spans)]
    assert read(keep(TEXT)) == whole


def test_bytes_are_counted_by_the_type_that_was_sent(keep):
    assert sent(keep(TEXT)) == {"float32": 2 * 96 * 4, "float16": 2 * 96 * 2}
    cut = TEXT[: TEXT.rindex('"args"')]  # the last all-reduce, of float32, has not ended
    assert sent(keep(cut)) == {"float32": 96 * 4, "float16": 2 * 96 * 2}
