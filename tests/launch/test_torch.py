"""PyTorch's ranks, launched as Horovod's are: they meet, and what goes wrong is told (test_strategies.py: they agree)."""

import os
import signal
import subprocess
import sys

import pytest

from ddl import launch
from helpers import LAUNCHING, ROOT, free_port, output, until

TOLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "GLOO_SOCKET_IFNAME")
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


@pytest.mark.ranks(2, cluster="torchrun")
def test_torch_ranks_get_the_variables_of_torchrun():
    """As warm as launches are here: a template's fork would have TensorFlow in it."""
    rank = os.environ["HOROVOD_RANK"]
    assert [os.environ[name] for name in TOLD] == [rank, "2", rank, "2", "0", "127.0.0.1", "lo"]
    assert int(os.environ["MASTER_PORT"]) > 0
    assert not {"tensorflow", "horovod.tensorflow", "pandas"} & set(sys.modules)


@pytest.mark.nightly(*LAUNCHING)
def test_torch_script_runs_under_torchrun():
    pytest.importorskip("torch")
    said = output(*TORCHRUN, "--master-port", free_port(), SCRIPT, *OPTIONS, timeout=200)
    assert said.count("step     2") == 1  # rank 0 alone writes


@pytest.fixture
def together(script):
    """Return a function that launches `TOGETHER` and more code on two ranks, even if they fail."""
    pytest.importorskip("torch")
    common = dict(cluster="torchrun", check=False, oversubscribe=True)
    return lambda after, **options: launch(script(TOGETHER + after), **common, **options)


@pytest.mark.nightly(*LAUNCHING)
def test_killed_torch_rank_is_named(together, nothing_left):
    steps = """
    while True:
        total()
        print("a step", flush=True)
        time.sleep(0.05)
    """
    run = together(steps, wait=False, timeout_s=120)
    until(lambda: (log := run.folder / "rank-1.log").exists() and "a step" in log.read_text())
    os.kill(run.progress().ranks[1].pid, signal.SIGKILL)
    run.wait()
    assert run.failure.sentence.startswith("rank 1 of 2 on ") and "was killed by SIGKILL" in run.failure.sentence


SEEN = """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS")
    seen = [os.environ[name] for name in names], int(os.environ["MASTER_PORT"]) > 0, sys.argv[1:]
    os.write(1, f"{seen}\\n".encode())  # the ranks share an output, and print writes a line in parts
"""


def test_printed_line_works_under_stock_torchrun(script):
    pytest.importorskip("torch")
    path = script("    import os, sys\n" + SEEN)
    run = launch(path, args=["a b", "-np"], cluster="torchrun", oversubscribe=True, threads=1)
    line = ["sh", run.folder / "command.sh"]
    stock = subprocess.run(line, capture_output=True, text=True, timeout=200)
    assert stock.returncode == 0, stock.stdout + stock.stderr
    printed = [line for rank in range(run.job["ranks"]) for line in run.logs(rank).splitlines()]
    assert sorted(stock.stdout.splitlines()) == sorted(printed) and len(printed) == 2
