"""The benchmarks run and write what the README quotes. What they measure is no matter of a test."""

import json
import subprocess
import sys

import pytest

from helpers import ROOT

COMMANDS = {
    "launch_overhead": ["--pairs", "1", "--output"],
    "prediction": ["--repeats", "1", "--steps", "8", "--output"],
    "start_time": ["--repeats", "1", "--ranks", "2", "--output"],
    "throughput": ["--repeats", "1", "--steps", "8", "--output"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_benchmark_reports_ratios_with_their_hardware(tmp_path, name):
    output = tmp_path / "figures.json"
    command = [sys.executable, ROOT / "benchmarks" / f"{name}.py", *COMMANDS[name], output]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(output.read_text())
    assert figures["hardware"]["cores"] >= 1 and figures["date"] and figures["versions"]
    ratios = {
        "throughput": lambda: [pair["ratio"] for pair in figures["pairs"].values()],
        "prediction": lambda: [
            1 + figures["median"][error]  # predicted ÷ measured
            for error in ("error", "error_in_turns", "error_alone")
        ],
    }.get(name, lambda: [figures["ratio"]])()
    assert len(ratios) == (3 if name in ("throughput", "prediction") else 1)
    assert all(ratio > 0 for ratio in ratios)
