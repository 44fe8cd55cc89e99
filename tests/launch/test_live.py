"""Cells on live ranks: variables that stay, errors, collectives that nobody finishes, interrupts, and no process left."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from ddl import attach, hosts, launch
from ddl.errors import CourseError, InputError
from ddl.follow import processes
from ddl.follow.run import RunInterrupted
from ddl.live import cells, magics
from ddl.live.loop import plain
from ddl.records.folder import StorageError
from helpers import ROOT, until

HOROVOD = """%%ranks 2 --oversubscribe
import horovod.tensorflow as hvd
import tensorflow as tf
hvd.init()
rank = hvd.rank()
"""
SUM = "%%ranks\nfloat(hvd.allreduce(tf.constant(rank + 1.0), op=hvd.Sum))"
TORCH = """%%ranks 2 --oversubscribe --cluster torchrun
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
"""
TORCH_SUM = "%%ranks\nx = torch.ones(1) * (rank + 1)\ndist.all_reduce(x)\nx.item()"
LIBRARIES = [
    pytest.param((HOROVOD, SUM, "hvd.allreduce(tf.ones(1))"), id="horovod"),
    pytest.param(
        (TORCH, TORCH_SUM, "dist.all_reduce(torch.ones(1))"),
        id="torchrun",
        marks=pytest.mark.skipif(not find_spec("torch"), reason="needs PyTorch"),
    ),
]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """A notebook's shell in which the extension is loaded."""
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path))
    monkeypatch.setenv("DDL_VIEW", "plain")
    monkeypatch.setenv("DDL_STALL_S", "1")
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "ddl")
    yield shell
    magics.stop()
    InteractiveShell.clear_instance()
    for folder in tmp_path.iterdir():
        assert not processes.of_run(folder.name)


@pytest.fixture
def say(shell, capsys):
    """Run a cell; return what it prints, and the exception that it ends with."""

    def say(source):
        done = shell.run_cell(source)
        printed = capsys.readouterr().out
        return printed, done.error_before_exec or done.error_in_exec

    return say


def values(printed):
    """What `say` printed, as {label: text}."""
    blocks, label = {}, None
    for line in printed.splitlines():
        if line.startswith("rank") and line.endswith(":"):
            label = line[:-1]
            blocks[label] = []
        elif label:
            blocks[label].append(line)
    return {label: "\n".join(lines).strip() for label, lines in blocks.items()}


def test_variables_output_and_values_stay_apart_by_rank_and_cells_are_recorded(shell, say):
    say(HOROVOD)
    assert values(say("%%ranks\nprint('printed', rank)\nrank * 10")[0]) == {
        "rank 0": "printed 0\n0",
        "rank 1": "printed 1\n10",
    }
    assert values(say(SUM)[0]) == {"ranks 0 and 1": "3.0"}
    assert [say(f"%%ranks\nrank;{note}")[0] for note in ("", "  # a note\n", "  # one\n# another")] == ["", "", ""]
    assert values(say("%%ranks\n'no end;'  # nor here;")[0]) == {"ranks 0 and 1": "'no end;'"}
    run = shell.run_line_magic("ranks", "")
    events = [event for event in run.events() if event["event"] == "cell"]
    assert [event["number"] for event in events] == list(range(1, 8))
    assert "printed 1" in run.logs(1) and run.state == "running"
    shell.run_line_magic("ranks", "stop")
    assert run.state == "done"


def test_error_of_a_rank_is_shown_once_with_its_line_and_ranks_survive(say):
    say(HOROVOD)
    _, error = say("%%ranks\nkept = rank\nif rank == 1:\n    raise ValueError('wrong shard')")
    assert isinstance(error, cells.CellFailed) and "rank 1 raised ValueError: wrong shard" in str(error)
    assert error.report.count("wrong shard") == 2 and "raise ValueError" in error.report
    assert "loop.py" not in error.report and "rank 0" not in error.report
    _, error = say("%%ranks\n1 / 0")
    assert error.report.count("ZeroDivisionError") == 1 and "ranks 0 and 1" in error.report
    assert isinstance(say("%%ranks\nprint(")[1], cells.CellFailed)
    assert isinstance(say("%%ranks\nraise SystemExit(3)")[1], cells.CellFailed)
    assert values(say("%%ranks\nkept")[0]) == {"rank 0": "0", "rank 1": "1"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_collective_that_waits_for_a_failed_rank_ends_and_the_next_one_works(say, library):
    begin, total, collective = library
    say(begin)
    _, error = say(f"%%ranks\nif rank == 0:\n    raise ValueError('no data')\n{collective}")
    assert "rank 0 raised ValueError: no data" in str(error)
    assert "rank 1 waited for rank 0" in error.report and "line 4 in <module>" in error.report
    _, error = say(f"%%ranks\nif rank == 1:\n    {collective}")
    assert "rank 1 waited for rank 0" in str(error)
    assert values(say(total)[0]) == {"ranks 0 and 1": "3.0"}


def test_collectives_that_do_not_match_end_too(say):
    say(HOROVOD)
    _, error = say("%%ranks\nhvd.allreduce(tf.ones(1)) if rank else hvd.broadcast(tf.ones(2), 0)")
    assert "don't match" in str(error)
    assert values(say(SUM)[0]) == {"ranks 0 and 1": "3.0"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_interrupt_ends_the_cell_and_not_the_ranks(say, library, tmp_path):
    begin, total, collective = library
    say(begin)
    begun = tmp_path / "begun"
    threading.Thread(target=lambda: (until(begun.exists), os.kill(os.getpid(), signal.SIGINT))).start()
    source = f"import pathlib, time\nif rank == 0:\n    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(500)"
    _, error = say(f"%%ranks\n{source}\n{collective}")
    begun.unlink()
    assert isinstance(error, RunInterrupted)
    # PyTorch warns of a connection that the interrupt has cut.
    assert {text.splitlines()[-1] for text in values(say(total)[0]).values()} == {"3.0"}


def test_push_and_pull_move_plain_data_both_ways(shell, say):
    say(HOROVOD)
    shell.user_ns |= {"a": np.arange(3.0), "b": {"rate": 0.1, "names": ["x", ("y", 2)]}}
    say("%ranks push a b")
    say("%%ranks\na = a + rank\nt = tf.constant([1.5])")
    say("%ranks pull a b t")
    assert np.array_equal(shell.user_ns["a"], [[0, 1, 2], [1, 2, 3]])
    assert shell.user_ns["b"] == [{"rate": 0.1, "names": ["x", ("y", 2)]}] * 2
    assert [each.tolist() for each in shell.user_ns["t"]] == [[1.5], [1.5]]
    assert "module" in str(say("%ranks pull hvd")[1])
    assert "missing" in str(say("%ranks pull missing")[1])
    assert "missing" in str(say("%ranks push missing")[1])
    assert values(say(SUM)[0]) == {"ranks 0 and 1": "3.0"}


@pytest.mark.parametrize("when", ["before", "after"])
def test_interrupt_around_a_request_leaves_no_rank_behind(say, monkeypatch, when):
    """It comes before or after the request is written."""
    say("%%ranks 2 --oversubscribe\nn = 1")
    original = cells.RunFolder.append

    def interrupted(*args):
        monkeypatch.setattr(cells.RunFolder, "append", original)
        if when == "after":
            original(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(cells.RunFolder, "append", interrupted)
    _, error = say("%%ranks\nn = 2")
    assert isinstance(error, RunInterrupted), error
    assert values(say("%%ranks\nn")[0]) == {"ranks 0 and 1": "1" if when == "before" else "2"}


class Array(np.ndarray):
    """A subclass that the other process does not have."""


@pytest.mark.parametrize(
    "value", [object(), [print], {"k": {1: lambda: 0}}, np.array([None]), np.ones(2).view(Array), type(np.ones(2))]
)
def test_only_plain_data_is_moved(value):
    with pytest.raises(InputError, match="cannot be moved"):
        plain(value, "x")


def test_array_of_a_subclass_moves_nowhere_and_ranks_go_on(shell, say):
    say("%%ranks 2 --oversubscribe\nimport numpy\nclass Array(numpy.ndarray): pass\na = numpy.ones(2).view(Array)")
    shell.run_cell("import numpy\nclass Array(numpy.ndarray): pass\nb = numpy.ones(2).view(Array)")
    assert "Array" in str(say("%ranks pull a")[1]) and "Array" in str(say("%ranks push b")[1])
    assert values(say("%%ranks\n4")[0]) == {"ranks 0 and 1": "4"}


def test_container_that_contains_itself_is_refused(shell, say):
    say("%%ranks 1\nown = {}\nown[1] = [own]")
    shell.user_ns["loop"] = loop = []
    loop.append(loop)
    for line in ("push loop", "pull own"):
        assert "contains itself" in str(say(f"%ranks {line}")[1])
    assert values(say("%%ranks\n4")[0]) == {"rank 0": "4"}


AWAIT = """%%ranks
import asyncio
async def later(x):
    await asyncio.sleep(0.01)
    return x + 1
task = asyncio.create_task(later(1))
await later(await task)
"""


def test_await_works_at_top_level(say):
    say("%%ranks 1\n1")
    assert values(say(AWAIT)[0]) == {"rank 0": "3"}
    _, error = say("%%ranks\nasync def fail():\n    1 / 0\nawait fail()")
    assert "ZeroDivisionError" in str(error) and "await fail()" in error.report and "asyncio" not in error.report
    assert values(say(AWAIT)[0]) == {"rank 0": "3"}


@pytest.mark.parametrize("line", ["!ls", "names = !ls", "%env", "    %env", "%%bash", "int?"])
def test_magics_and_commands_are_refused_with_their_line(say, line):
    source = f"if True:\n{line}" if line.startswith(" ") else line
    _, error = say(f"%%ranks 1\nx = 1\n{source}\ny = 1")
    assert isinstance(error, InputError) and line.strip() in str(error), error
    assert f"line {3 + source.count(chr(10))} " in str(error)


def test_time_goes_above_ranks(say):
    printed, error = say("%%time\n%%ranks 1\n3")
    assert not error and values(printed)["rank 0"].startswith("3\n") and "Wall time" in printed


def test_long_line_is_shown_from_its_beginning(shell, say):
    text = values(say("%%ranks 1\nprint('begin', 'x' * 3_000_000, 'end')\n42")[0])["rank 0"]
    log = shell.run_line_magic("ranks", "").folder / "rank-0.log"
    assert text.startswith("begin xxx") and text.endswith("x end\n42") and str(log) in text
    assert len(text) < 300_000
    assert values(say("%%ranks\n1")[0]) == {"rank 0": "1"}


@pytest.mark.skipif(not find_spec("torch"), reason="needs PyTorch")
def test_bfloat16_of_pytorch_moves_as_float32():
    import torch

    assert plain(torch.ones(2).bfloat16(), "x").dtype == np.float32
    with pytest.raises(InputError, match="x cannot be moved"):
        plain(torch.eye(2).to_sparse(), "x")


@pytest.mark.parametrize("library", LIBRARIES)
def test_killed_rank_ends_the_run_with_its_report_and_the_next_cell_starts_new_ranks(shell, say, library):
    begin, _, collective = library
    say(begin)
    run = shell.run_line_magic("ranks", "")
    _, error = say(f"%%ranks\nimport os\nif rank == 1:\n    os.kill(os.getpid(), 9)\n{collective}")
    assert "rank 1 of 2" in str(error) and "SIGKILL" in str(error)
    assert run.state == "failed" and not processes.of_run(run.id)
    assert "no ranks are live" in str(say("%ranks")[1])
    assert values(say("%%ranks 2 --oversubscribe\n'rank' in globals()")[0]) == {"ranks 0 and 1": "False"}


def test_ranks_killed_between_cells_are_reported_and_a_stopped_run_is_replaced(shell, say):
    say(HOROVOD)
    run = shell.run_line_magic("ranks", "")
    run.kill_rank(0)
    until(lambda: run.progress().over)
    assert "rank 0 of 2" in str(say("%%ranks\n1")[1])
    say("%%ranks 2 --oversubscribe\n1")
    shell.run_line_magic("ranks", "").stop()
    printed, error = say("%%ranks 2 --oversubscribe\n7")
    assert not error and "7" in printed and "stopped" in printed


def test_other_number_of_ranks_replaces_them(shell, say):
    say(HOROVOD)
    first = shell.run_line_magic("ranks", "")
    printed, error = say("%%ranks 1\nx = 5")
    assert not error and first.id in printed and first.state == "done"
    assert values(say("%%ranks\nx")[0]) == {"rank 0": "5"}
    assert isinstance(say("%%ranks two\n1")[1], InputError)
    assert isinstance(say("%%ranks 1 --epochs 3\n1")[1], InputError)
    for wrong in ("0", "2 --cluster none", "2 --site missing.toml"):  # what cannot start ends no ranks
        assert isinstance(say(f"%%ranks {wrong}\n1")[1], CourseError)
    assert values(say("%%ranks\nx")[0]) == {"rank 0": "5"}


def test_ranks_that_are_over_are_replaced_by_equally_many(say):
    assert "SIGKILL" in str(say("%%ranks 1\nimport os\nos.kill(os.getpid(), 9)")[1])
    assert values(say("%%ranks\n2")[0]) == {"rank 0": "2"}


def test_idle_ranks_end(shell, say, monkeypatch):
    monkeypatch.setenv("DDL_LIVE_IDLE_S", "1")
    say(HOROVOD)
    run = shell.run_line_magic("ranks", "")
    until(lambda: run.progress().over)
    assert run.state == "done" and not processes.of_run(run.id)


def test_cells_run_on_hosts_with_networks_of_their_own(say, shell):
    if reason := hosts.permitted():
        pytest.skip(f"several hosts cannot be made here: {reason}")
    site = ROOT / "containers" / "sites" / "two-hosts.toml"
    say(HOROVOD.replace("--oversubscribe", f"--oversubscribe --nodes 2 --site {site}"))
    run = shell.run_line_magic("ranks", "")
    assert values(say("%%ranks\nimport socket; socket.gethostname()")[0]) == {"rank 0": "'host0'", "rank 1": "'host1'"}
    _, error = say("%%ranks\nif rank == 1:\n    hvd.allreduce(tf.ones(1))")
    assert "rank 1 waited for rank 0" in str(error)
    assert values(say(SUM)[0]) == {"ranks 0 and 1": "3.0"}
    say("%%ranks\nx = rank")
    say("%ranks pull x")
    assert shell.user_ns["x"] == [0, 1]
    shell.run_line_magic("ranks", "stop")
    assert run.state == "done" and not list(run.folder.glob("*.pickle"))


KERNEL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.run_line_magic("load_ext", "ddl")
shell.run_cell("%%ranks 2 --oversubscribe\\nimport time")
print("run", shell.run_line_magic("ranks", "").id, flush=True)
shell.run_cell("%%ranks\\ntime.sleep(500)")
"""


def test_no_process_is_left_of_a_killed_kernel(tmp_path):
    environment = {**os.environ, "DDL_RUNS_DIR": str(tmp_path), "DDL_VIEW": "plain"}
    with subprocess.Popen([sys.executable, "-c", KERNEL], env=environment, stdout=subprocess.PIPE, text=True) as kernel:
        run_id = next(line.split()[1] for line in kernel.stdout if line.startswith("run "))
        until(lambda: "time.sleep" in (tmp_path / run_id / "events.jsonl").read_text())
        assert processes.of_run(run_id)
        kernel.kill()
    until(lambda: not processes.of_run(run_id))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DDL_RUNS_DIR", str(tmp_path))
        assert attach(run_id).state == "stopped"
    assert json.loads((tmp_path / run_id / "job.json").read_text())["name"] == "ranks"


def test_ranks_whose_threads_go_on_are_ended(shell, say, monkeypatch):
    monkeypatch.setattr(cells, "LEAVE_S", 0.5)
    say(HOROVOD)
    run = shell.run_line_magic("ranks", "")
    say("%%ranks\nimport threading, time\nthreading.Thread(target=time.sleep, args=[500]).start()")
    shell.run_line_magic("ranks", "stop")
    assert run.state == "stopped" and not processes.of_run(run.id)


def test_ranks_whose_folder_was_deleted_are_ended(shell, say):
    say("%%ranks 1\n1")
    run = shell.run_line_magic("ranks", "")
    shutil.rmtree(run.folder)
    assert isinstance(say("%%ranks\n2")[1], StorageError)
    assert say("%ranks stop")[1] is None and not processes.of_run(run.id)
    assert values(say("%%ranks 1\n3")[0]) == {"rank 0": "3"}


def test_live_ranks_take_no_turn(shell, say, monkeypatch, tmp_path):
    monkeypatch.setenv("DDL_QUEUE", str(tmp_path.parent))
    say("%%ranks 1\nx = 1")
    run = shell.run_line_magic("ranks", "")
    assert launch("-m this", workers=1, oversubscribe=True, timeout_s=60).state == "done" and run.state == "running"
