"""The benchmarks run and write the numbers that docs/measured.md quotes. Tests ignore the values."""

import json
import sys

import pytest

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


def test_training_with_different_work_is_rejected(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import throughput

    asked = {"ranks": 2, "samples": 40 * 1024}
    throughput.check_work({**asked, "images_per_s": 5000.0}, asked)
    with pytest.raises(SystemExit, match="'samples': 1024"):
        throughput.check_work({**asked, "samples": 1024}, asked)
