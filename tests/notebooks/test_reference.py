"""Recording the reference results, at a size that only proves that it works."""

import subprocess
import sys

import pytest

from ddl.records.jsonfiles import read_json_lines
from helpers import ROOT


@pytest.mark.slow
def test_recording_keeps_every_arm_and_resumes(tmp_path):
    command = [
        sys.executable,
        ROOT / "tools" / "reference.py",
        "--only",
        "convergence",
        "--size",
        "smoke",
        "--data-set",
        "synthetic",
        "--seeds",
        "5",
        "--factors",
        "1",
        "--work",
        tmp_path / "work",
        "--results",
        tmp_path / "results",
    ]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 0, first.stdout + first.stderr
    arms = read_json_lines(tmp_path / "results" / "convergence-cifar10.jsonl")
    recorded = read_json_lines(ROOT / "results" / "reference" / "convergence-cifar10.jsonl")
    assert {arm["name"] for arm in arms} == {arm["name"] for arm in recorded}
    assert {arm["seed"] for arm in arms} == {5}
    assert all(arm["data"]["name"] == "synthetic" and arm["history"] for arm in arms)
    grid = read_json_lines(tmp_path / "results" / "convergence-grid.jsonl")
    assert [result["name"] for result in grid] == [
        f"{arm}, base rate × 1" for arm in ("small batch", "+ warm-up", "LARS", "LAMB")
    ]
    before = len(list((tmp_path / "work").glob("*/*/job.json")))
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0
    assert len(list((tmp_path / "work").glob("*/*/job.json"))) == before == len(arms) + len(grid)


@pytest.mark.parametrize("name", ["convergence-cifar10", "convergence-grid"])
def test_recorded_results_say_where_they_come_from(name):
    results = read_json_lines(ROOT / "results" / "reference" / f"{name}.jsonl")
    assert results
    for result in results:
        assert result["data"]["form"] and result["hardware"]["cpu"] and result["finished"]
        assert result["versions"]["tensorflow"] and result["versions"]["horovod"]
        assert result["script"] == "train_cifar.py"  # no path of the machine that recorded it
        assert "/" not in " ".join(result["argv"])
