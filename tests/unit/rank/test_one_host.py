"""What is changed in Horovod's launcher."""

import sys

import horovod
import pytest
from horovod.runner import gloo_run, launch
from horovod.runner.http.http_server import RendezvousHTTPServer

from ddl.launcher.commands import HorovodrunCommand
from ddl.rank import one_host

COMMAND = HorovodrunCommand(
    processes=2, command=("python", "-m", "ddl.rank", "--threads", "1", "x.py", "--m", "3", "-np", "9")
)


class Supervisor:
    stopping = object()

    def __init__(self):
        self.ranks = {}

    def run_rank(self, line, rank):
        self.ranks[rank] = line
        return 3


def state():
    return (
        RendezvousHTTPServer.request_queue_size,
        launch.gloo_built,
        launch.parse_args,
        gloo_run.env_util.is_exportable,
        gloo_run.register_shutdown_event,
        gloo_run._exec_command_fn,
        sys.argv,
    )


def same(before, after):
    return [one is other for one, other in zip(before, after, strict=True)]


def fail(before):
    with one_host.adapted(Supervisor(), COMMAND):
        assert not any(same(before, state()))
        raise ZeroDivisionError


def test_all_that_is_changed_is_put_back():
    before = state()
    with pytest.raises(ZeroDivisionError):
        fail(before)
    assert all(same(before, state()))


def test_the_parser_leaves_the_script_its_options():
    with one_host.adapted(Supervisor(), COMMAND):
        options = launch.parse_args()
    assert options.num_proc == 2 and options.command == list(COMMAND.command)


def test_ranks_are_run_by_the_supervisor():
    class Slot:
        rank = 1

    supervisor = Supervisor()
    with one_host.adapted(supervisor, COMMAND):
        code, ended = gloo_run._exec_command_fn(None)("command", Slot, [])
    assert code == 3 and ended > 0 and supervisor.ranks == {1: "command"}


def test_an_unknown_horovod_is_refused_and_left_as_it_is(monkeypatch):
    monkeypatch.setattr(horovod, "__version__", "9.9.9")
    before = state()
    with pytest.raises(one_host.UnknownHorovod, match=r"Horovod 9\.9\.9 is installed.*knows 0\.28\.1 only"):
        one_host.adapted(Supervisor(), COMMAND).__enter__()
    assert all(same(before, state()))
