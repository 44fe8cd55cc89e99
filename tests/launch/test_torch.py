"""PyTorch's ranks, launched as Horovod's are: they meet, they agree with one device, and what goes wrong is told."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from course.workers.agreement import agreement, kept_weights
from ddl import launch
from helpers import LAUNCHING, ROOT, free_port, launched, launches, printed, until

TOLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "GLOO_SOCKET_IFNAME")
FEW = {"steps": 5, "train_samples": 256, "test_samples": 100, "data_set": "synthetic"}
RUNS = {
    "loop": {"script": "strategies/loop.py", "workers": 1, **FEW},
    "torch_ddp": {"script": "strategies/torch_ddp.py", "workers": 2, "cluster": "torchrun", **FEW},
}
TOLERANCES = {1: 1e-6, 4: 1e-3}  # as in test_strategies.py
TOGETHER = """
    import os, sys, time
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    def total():
        figure = torch.tensor(rank + 1.0)
        dist.all_reduce(figure)
        return figure.item()
"""

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
SCRIPT = ROOT / "source_code" / "strategies" / "torch_ddp.py"
OPTIONS = ["--steps", "2", "--data-set", "synthetic", "--train-samples", "256", "--test-samples", "100"]

OUTPUTS = {"runs": launches(RUNS)}


def test_every_rank_is_told_what_torchrun_tells_and_finds_no_tensorflow(script, nothing_left):
    """As warm as launches are here: a template's fork would have TensorFlow in it."""
    run = launch(
        script(f"""
    import json, os, sys
    print(json.dumps([os.environ[name] for name in {TOLD}] + [int(os.environ["MASTER_PORT"]) > 0]))
    print(json.dumps([name for name in ("tensorflow", "horovod.tensorflow", "pandas") if name in sys.modules]))
    """),
        cluster="torchrun",
        oversubscribe=True,
    )
    assert printed(run, 0) == [[str(rank), "2", str(rank), "2", "0", "127.0.0.1", "lo", True] for rank in (0, 1)]
    assert printed(run) == [[], []]
    nothing_left(run)


@pytest.mark.parametrize(
    "raised, options, advice",
    [
        ("ModuleNotFoundError(\"No module named 'torch'\", name='torch')", {"cluster": "torchrun"}, "make lab TORCH=1"),
        ("ValueError('environment variable RANK expected, but not set')", {}, 'cluster="torchrun"'),
    ],
)
def test_without_pytorch_or_its_variables_a_launch_says_how_to_get_them(script, nothing_left, raised, options, advice):
    run = launch(script(f"raise {raised}\n"), check=False, oversubscribe=True, **options)
    assert run.failure.type in raised and advice in run.failure.advice
    nothing_left(run)


@pytest.fixture(scope="module")
def runs(output_of):
    pytest.importorskip("torch")
    return launched(*output_of("runs"))


@pytest.mark.slow
@pytest.mark.parametrize("step", TOLERANCES)
def test_two_ranks_of_pytorch_reach_the_weights_of_one_device_of_tensorflow(runs, step):
    table = agreement(runs.values(), step)
    assert table["÷ the largest weight"].max() < TOLERANCES[step], table.to_string()
    kept = kept_weights(runs["torch_ddp"])
    assert max(float(np.abs(a - b).max()) for a, b in zip(kept[1], kept[4], strict=True)) > 10 * TOLERANCES[4]


@pytest.mark.slow
def test_the_record_is_the_same(runs, nothing_left):
    ours, theirs = (runs[name].result for name in ("torch_ddp", "loop"))
    assert set(ours) == set(theirs) and ours["parameters"] == theirs["parameters"]
    assert (ours["strategy"], ours["ranks"], ours["replicas"], ours["per_rank_batch"]) == ("torch_ddp", 2, 2, 32)
    assert ours["versions"]["torch"] and set(ours["versions"]) - {"torch"} == set(theirs["versions"])
    for row, other in zip(ours["history"], theirs["history"], strict=True):
        for key in ("loss", "accuracy", "test_loss", "test_accuracy"):
            assert row[key] == pytest.approx(other[key], rel=2e-2, abs=1.1e-2), key
    first = [next(event for event in run.events() if event["event"] == "step") for run in runs.values()]
    assert first[0]["loss"] == pytest.approx(first[1]["loss"], rel=1e-5)
    nothing_left(runs["torch_ddp"])


@pytest.mark.nightly(*LAUNCHING)
def test_the_script_runs_under_torchrun_itself_too():
    pytest.importorskip("torch")
    result = subprocess.run(
        [*TORCHRUN, "--master-port", str(free_port()), SCRIPT, *OPTIONS], capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("step     2") == 1  # rank 0 alone writes


@pytest.fixture
def together(script):
    """Return a function that launches `TOGETHER` and what comes after it on two ranks, whatever becomes of them."""
    pytest.importorskip("torch")
    return lambda after, **options: launch(
        script(TOGETHER + after), cluster="torchrun", check=False, oversubscribe=True, **options
    )


@pytest.mark.nightly(*LAUNCHING)
def test_a_killed_rank_is_named_and_not_who_noticed(together, nothing_left):
    run = together(
        """
    while True:
        total()
        print("a step", flush=True)
        time.sleep(0.05)
    """,
        wait=False,
        timeout_s=120,
    )
    until(lambda: (log := run.folder / "rank-1.log").exists() and "a step" in log.read_text())
    os.kill(run.progress().ranks[1].pid, signal.SIGKILL)
    run.wait()
    assert run.failure.sentence.startswith("rank 1 of 2 on ") and "was killed by SIGKILL" in run.failure.sentence
    nothing_left(run)


@pytest.mark.nightly(*LAUNCHING)
def test_a_rank_that_others_wait_for_is_named_at_the_time_limit(together, nothing_left):
    run = together(
        """
    total()
    if rank == 1:
        time.sleep(600)
    total()
    """,
        timeout_s=15,
    )
    assert "the others were waiting for rank 1" in run.failure.sentence, run.failure
    nothing_left(run)
