"""From Slurm's variables to Horovod's; the tasks themselves run in tests/slurm and on hosts."""

import contextlib
import socket
import threading
import time
from collections import namedtuple

import psutil
import pytest
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts

from ddl.start import rendezvous, task
from ddl.start.rendezvous import HOROVOD, SLURM, Slot, slots


def variables(rank, nodes, per_node):
    local, node = str(rank % per_node), str(rank // per_node)
    return dict(zip(SLURM, (str(rank), str(nodes * per_node), local, node, str(nodes)), strict=True))


@pytest.mark.parametrize("nodes, per_node", [(1, 8), (2, 4), (3, 2)])
def test_slots_match_horovods_placement(nodes, per_node):
    hosts = ",".join(f"node{number}:{per_node}" for number in range(nodes))
    planned = get_host_assignments(parse_hosts(hosts), nodes * per_node)
    for theirs, ours in zip(planned, slots(nodes * per_node, nodes), strict=True):
        assert ours.horovod == {f"HOROVOD_{name.upper()}": str(getattr(theirs, name)) for name in HOROVOD}
        assert Slot.here(variables(ours.rank, nodes, per_node)) == ours


@pytest.fixture
def interfaces(monkeypatch):
    """Give this host, gpu7, a loopback and three more interfaces."""
    addresses = {"lo": "127.0.0.1", "ib0": "10.1.0.7", "ib1": "10.2.0.7", "ib2": "10.3.0.7"}
    entry = namedtuple("entry", "family address")
    monkeypatch.setenv("SLURMD_NODENAME", "gpu7")
    monkeypatch.setattr(
        psutil,
        "net_if_addrs",
        lambda: {name: [entry(socket.AF_INET6, "::7"), entry(socket.AF_INET, at)] for name, at in addresses.items()},
    )
    return addresses


@pytest.mark.parametrize("named, address", [("10.0.0.7", "10.0.0.7"), ("127.0.1.1", "10.1.0.7"), (None, "10.1.0.7")])
def test_address_from_interface_or_name_unless_local(interfaces, monkeypatch, named, address):
    def look_up(name):
        if named is None:
            raise OSError("no such name")
        return named

    monkeypatch.setattr(socket, "gethostbyname", look_up)
    assert (task.own_address(""), task.own_address("ib1")) == (address, "10.2.0.7")
    with pytest.raises(LookupError, match="ib9.* lo, ib0, ib1, ib2"):
        task.own_address("ib9")


def test_rendezvous_server_keeps_what_a_rank_says_before_it_serves(monkeypatch):
    from horovod.runner.http.http_server import RendezvousHTTPServer

    def late(server, slots, init=RendezvousHTTPServer.init):
        time.sleep(0.3)
        init(server, slots)

    monkeypatch.setattr(RendezvousHTTPServer, "init", late)
    listening = rendezvous.listen("127.0.0.1")
    for name, value in rendezvous.variables(*listening.getsockname()).items():
        monkeypatch.setenv(name, value)
    rank = threading.Thread(target=rendezvous.write, args=("address-0", "here"))
    rank.start()
    server = rendezvous.serve(listening, 2, 1)
    rank.join()
    assert rendezvous.read("address-0") == "here"
    server.shutdown()


def test_rendezvous_server_accepts_many_connections():
    listening = rendezvous.listen()
    server, port = rendezvous.serve(listening, 64, 2), listening.getsockname()[1]
    with contextlib.ExitStack() as stack:  # more than five, and nobody serves them yet
        stack.callback(server.server_close)
        server.shutdown()
        for _ in range(64):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=0.5))
