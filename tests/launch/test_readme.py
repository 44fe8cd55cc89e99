"""The examples of source_code/README.md run unchanged."""

import re
import subprocess
import sys

import pytest

from ddl import attach, launch, runs
from ddl.cli import main
from ddl.records.machine import host_name
from helpers import ROOT

README = (ROOT / "source_code" / "README.md").read_text()
FILES = dict(re.findall(r"^```(?:python|toml)\n# (\S+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
WRAPPED = "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))"


@pytest.fixture
def example(script, monkeypatch, tmp_path):
    """Return a function that writes one of the files into the working folder, with `old` replaced by `new`."""
    monkeypatch.chdir(tmp_path)
    return lambda name, old="", new="": script(FILES[name].replace(old, new), name)


def run_torch(lr):
    """Train for README; return the exit status."""
    return main(["run", "-n", "2", "--oversubscribe", "train_torch.py", "--lr", lr])


@pytest.mark.slow
def test_pytorch_example_records_numbers_and_checksums(example, capsys):
    pytest.importorskip("torch")
    example("train_torch.py")
    assert run_torch("0.1") == 0
    (right,) = runs()
    assert right.job["cluster"] == "torchrun" and right.history["step"].tolist() == list(range(1, 101))
    assert right.history["loss"].iloc[-1] < right.history["loss"].iloc[0] / 100
    assert main(["compare", "--ranks", right.id]) == 0
    example("train_torch.py", WRAPPED, "torch.nn.Linear(8, 1)")
    assert run_torch("0.1") == 0
    assert main(["compare", "--ranks", runs()[-1].id]) == 1
    assert "step 1, rank 1, weight" in capsys.readouterr().out and "`step 1, rank 1, weight`" in README
    assert attach(right.id).diverged(runs()[-1]).step == 1


def without_places(text, folder):
    """Return a text without what differs from machine to machine and run to run, line by line."""
    rules = {str(folder): "~", host_name(): "HOST", "laptop": "HOST", r"\d{8}-\d{6}-\w{4}": "RUN"}
    rules |= {r"\d+\.\d s": "S", r"\d:\d\d": "S", r"(?<=is )[\d.e+]+": "LOSS"}
    rules |= {"rank 0 lost touch": "rank 0 was ended"}  # whichever comes first
    for old, new in rules.items():
        text = re.sub(old, new, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.slow
def test_failed_run_ends_as_the_page_shows(example, capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path / "runs"))
    example("train_torch.py")
    assert run_torch("100") == 1
    (block,) = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    shown = without_places(block, "~")
    assert without_places(capsys.readouterr().out, tmp_path)[-len(shown) :] == shown


@pytest.mark.slow
def test_keras_example_learns(example):
    run = launch(example("train_keras.py"), workers=2, oversubscribe=True)
    losses = [float(found) for found in re.findall(r"loss: ([\d.e-]+)", run.logs(0))]
    assert len(losses) == 5 and losses[-1] < losses[0] / 10 and "loss" not in run.logs(1)


def test_slurm_example_is_one_srun_on_two_nodes(example, capsys):
    example("train_torch.py")
    site = example("site.toml")
    assert main(["run", "-n", "8", "--dry-run", "--site", str(site), "train_torch.py", "--lr", "0.1"]) == 0
    line = capsys.readouterr().out
    for option in ("--partition=gpu", "--nodes=2", "--ntasks-per-node=4", "--gres=gpu:4", "--time=1:00:00"):
        assert f" {option} " in line
    assert line.rstrip().endswith("train_torch.py --lr 0.1")


@pytest.mark.slow
def test_example_of_a_test_on_ranks_passes(example, tmp_path):
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-m", "pytest", example("test_sums.py")], capture_output=True, text=True)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout
