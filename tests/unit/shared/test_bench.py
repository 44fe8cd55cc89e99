"""Shared parts of the benchmarks: sizes, repeats, memory and settings."""

import importlib

import pytest

from course.shared import bench
from course.shared.bench import BenchError
from helpers import ROOT


def config(*arguments):
    return bench.parser("").parse_args(arguments)


def test_message_sizes_follow_the_options():
    for arguments, expected in (
        ("", [4 * 4**power for power in range(14)]),  # up to 256 MiB
        ("--min-bytes 1024 --max-bytes 8192 --factor 2", [1024, 2048, 4096, 8192]),
        ("--max-bytes 100", [4, 16, 64]),
        ("--sizes 400 4 400", [4, 400]),
    ):
        assert bench.sizes(config(*arguments.split())) == expected
    for arguments, message in (
        ("--sizes 4 6", "6 bytes: messages are float32 numbers"),
        ("--factor 3 --min-bytes 5", "5 bytes"),
        ("--min-bytes 8 --max-bytes 4", "--min-bytes 8 is above --max-bytes 4"),
    ):
        with pytest.raises(BenchError, match=message):
            bench.sizes(config(*arguments.split()))


def test_too_large_messages_raise(monkeypatch):
    monkeypatch.setattr(bench, "available_bytes", lambda: 1_000_000_001)
    with pytest.raises(BenchError, match="--max-bytes 125000000"):
        bench.refuse_what_does_not_fit(200_000_000, copies=4, ranks=2)
    bench.refuse_what_does_not_fit(125_000_000, copies=4, ranks=2)


def test_a_comparison_needs_the_same_device_on_both_sides(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    pytorch = importlib.import_module("pytorch")
    for ours, theirs, both in (("", "", pytorch.PROCESSOR), ("a GPU", "a GPU", "a GPU"), ("", "a GPU", None)):
        monkeypatch.setattr(pytorch, "DEVICES", {"ours": f"print({ours!r})", "PyTorch": f"print({theirs!r})"})
        if both:
            assert pytorch.device_of_both() == both
        else:
            with pytest.raises(SystemExit, match="same device"):
                pytorch.device_of_both()
