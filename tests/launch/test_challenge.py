"""A real score: the baseline on generated pictures, killed in its middle, and gone on with."""

import json
import subprocess
import sys

import pytest

from ddl.launcher import processes
from ddl.launcher.run import attach
from ddl.records.paths import runs_dir
from helpers import started, until

pytestmark = pytest.mark.nightly("source_code/course/challenge/*")
SIZES = "--samples 2048 --train-samples 4096 --public-samples 500 --private-samples 500"
COMMAND = [sys.executable, "-m", "ddl.cli", "challenge", "score", "baseline.py", "--data-set", "synthetic"]
COMMAND += [*SIZES.split(), "--runs", "1"]


def entries():
    """What the one journal knows of its runs."""
    found = list(runs_dir().glob("challenge/*/journal.json"))
    return json.loads(found[0].read_text())["looks"][0] if found else []


def test_a_score_that_is_killed_goes_on_with_its_seeds_and_leaves_no_process():
    with started(*COMMAND):
        until(lambda: any(entry["run"] for entry in entries()))
        before = entries()
        (run_id,) = [entry["run"] for entry in before if entry["run"]]
        until(lambda: (runs_dir() / run_id / "rank-1.json").exists())
    until(lambda: not processes.of_run(run_id))
    assert attach(run_id).state == "stopped"

    done = subprocess.run(COMMAND, text=True, capture_output=True, timeout=590)
    assert done.returncode == 0, done.stderr
    first, second = after = entries()
    seeds = [(entry["role"], entry["seed"], entry["secret"]) for entry in before]
    assert [(entry["role"], entry["seed"], entry["secret"]) for entry in after] == seeds
    assert first["interrupted"] == [run_id] and first["run"] != run_id and first["seed"] == second["seed"]
    assert "going on with 2 of 2 runs" in done.stdout and "a trial, which does not count" in done.stdout
    # The same file with the same seeds, on the same pictures: the same weights, as far as sums are in the same order.
    assert abs(first["accuracy"] - second["accuracy"]) < 0.05 and 0 < first["accuracy"] < 1
    for entry in after:
        judged = json.loads((runs_dir() / entry["run"] / "judged.json").read_text())
        assert judged["accuracy"] == entry["accuracy"] and judged["samples"] == 2048
