"""The benchmarks run and write what docs/measured.md quotes. What they measure is no matter of a test."""

import json
import os
import signal
import subprocess
import sys
import uuid

import pytest

from ddl.launcher import processes
from helpers import ROOT

pytestmark = pytest.mark.nightly("benchmarks/*")

BENCHMARKS = ROOT / "benchmarks"
COMMANDS = {
    "launch_overhead": ["--pairs", "1", "--output"],
    "prediction": ["--repeats", "1", "--steps", "8", "--output"],
    "pytorch": ["--repeats", "1", "--steps", "24", "--ranks", "1", "--ways", "eager", "--output"],
    "start_time": ["--repeats", "1", "--ranks", "2", "--output"],
    "throughput": ["--repeats", "1", "--steps", "8", "--output"],
}


def measure(name, folder):
    (folder / "runs").mkdir()
    command = [sys.executable, BENCHMARKS / f"{name}.py", *COMMANDS[name], folder / "figures.json"]
    return command, {"DDL_RUNS_DIR": str(folder / "runs"), "DDL_VIEW": "plain"}


OUTPUTS = {"measured": measure}


@pytest.fixture(scope="module", params=COMMANDS)
def measured(request, output_of):
    """A benchmark's name and figures."""
    folder, _ = output_of("measured", request.param)
    return request.param, json.loads((folder / "figures.json").read_text())


def test_a_benchmark_reports_ratios_with_their_hardware(measured):
    name, figures = measured
    assert figures["hardware"]["cores"] >= 1 and figures["date"] and figures["versions"]
    if name == "start_time":
        ratios = [figures["ratio"]]
    elif name == "prediction":  # predicted ÷ measured
        ratios = [1 + figures["median"][key] for key in ("error", "error_in_turns", "error_alone", "more_error")]
    else:
        ratios = [pair["ratio"] for pair in figures["pairs"].values()]
    assert ratios and all(ratio > 0 for ratio in ratios)
    assert figures["missing"] == {}
    for parts in figures.get("first_step_s", {}).values():
        assert parts["total"] == pytest.approx(sum(parts.values()) / 2) and min(parts.values()) > 0


PAIRS = """
    import subprocess
    import sys
    from pathlib import Path

    import turns
    from turns import Turns, paired, run, take_turns

    turns.GRACE_S = 0.2

    def quick():
        return float(run(["echo", "2"]))

    def endless():
        rank = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; sleep 100"], stdout=subprocess.PIPE)
        rank.stdout.readline()  # it no longer heeds SIGTERM
        print("the rank is there", flush=True)
        return run(["sleep", "100"])

    take_turns(
        Path(sys.argv[1]),
        {"quick": Turns({"a": quick, "b": quick}, 1, str), "slow": Turns({"a": quick, "b": endless}, 3, str)},
        lambda rows: {"pairs": {name: paired(measured, "s") for name, measured in rows.items()}},
        steps=8,
    )
"""


def interrupted(command, at):
    """Run a command until it prints a line that begins with `at`, interrupt it, and return (status, output, errors)."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS), "TEST_OF_BENCHMARKS": mark}
    process = subprocess.Popen(
        [sys.executable, *map(str, command)], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith(at):
            process.send_signal(signal.SIGINT)
            break
    output, errors = process.communicate(timeout=100)
    assert processes.of_run(mark, mark="TEST_OF_BENCHMARKS") == []
    return process.returncode, "".join(seen) + output, errors


def test_an_interrupt_ends_every_process_and_keeps_what_was_measured(tmp_path, script):
    output = tmp_path / "new" / "figures.json"
    status, printed, errors = interrupted([script(PAIRS), output], "the rank is there")
    assert status == 130
    assert errors == f"interrupted: {output} has what was measured, and lacks slow (3 of 3 rounds)\n"
    figures = json.loads(output.read_text())
    medians = {"median_a": 2.0, "median_b": 2.0, "ratio": 1.0, "ratio_range": [1.0, 1.0]}
    assert figures["pairs"] == {"quick": {"a": "a", "b": "b", "s": [[2.0, 2.0]], **medians}}
    assert figures["missing"] == {"slow": 3} and figures["steps"] == 8
    assert [line.split(" (")[0] for line in printed.splitlines()[1:]] == [
        "quick 1 of 1, a: 2.0",
        "quick 1 of 1, b: 2.0",
        "slow 1 of 3, a: 2.0",
        "the rank is there",
    ]


def test_a_benchmark_that_is_interrupted_at_once_leaves_earlier_figures(tmp_path):
    output = tmp_path / "figures.json"
    output.write_text("earlier")
    command = [BENCHMARKS / "throughput.py", *COMMANDS["throughput"], output]
    status, _, errors = interrupted(command, at="")  # its first line says what the machine is
    assert (status, errors) == (130, f"interrupted: no round was over, so {output} is as it was\n")
    assert output.read_text() == "earlier"


def test_a_training_that_did_other_work_than_asked_for_is_no_measurement(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import throughput

    asked = {"ranks": 2, "samples": 40 * 1024}
    throughput.check_work({**asked, "images_per_s": 5000.0}, asked)
    with pytest.raises(SystemExit, match="'samples': 1024"):
        throughput.check_work({**asked, "samples": 1024}, asked)
