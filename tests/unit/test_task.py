"""From Slurm's variables to Horovod's; the tasks themselves run in tests/slurm and on hosts."""

import contextlib
import socket

import pytest
from ddl.rank import rendezvous, task
from ddl.rank.place import Place, places


def variables(rank, nodes=2, per_node=4):
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(nodes * per_node),
        "SLURM_LOCALID": str(rank % per_node),
        "SLURM_NODEID": str(rank // per_node),
        "SLURM_NNODES": str(nodes),
        "SLURMD_NODENAME": f"gpu{rank // per_node + 7}",
    }


@pytest.mark.parametrize("nodes, per_node", [(1, 1), (1, 8), (2, 4), (3, 2), (125, 8)])
def test_the_placement_is_the_one_that_horovods_server_expects(nodes, per_node):
    slots = rendezvous.host_plan(nodes * per_node, nodes)
    for rank in range(nodes * per_node):
        slot = next(slot for slot in slots if slot.rank == rank)
        place = Place.here(variables(rank, nodes, per_node))
        assert place.horovod == {
            "HOROVOD_RANK": str(slot.rank),
            "HOROVOD_SIZE": str(slot.size),
            "HOROVOD_LOCAL_RANK": str(slot.local_rank),
            "HOROVOD_LOCAL_SIZE": str(slot.local_size),
            "HOROVOD_CROSS_RANK": str(slot.cross_rank),
            "HOROVOD_CROSS_SIZE": str(slot.cross_size),
            "HOROVOD_HOSTNAME": slot.hostname,
        }
        assert places(nodes * per_node, nodes)[rank] == place


def test_a_place_that_this_machine_gives_comes_before_slurms():
    there = Place(rank=3, size=4, local_rank=1, node=1, nodes=2)
    assert Place.here({**variables(0), **there.variables}) == there


def test_nodes_are_filled_one_after_the_other():
    """Five ranks of a cluster of tf.distribute on two nodes, as Slurm places them."""
    assert [(place.node, place.local_rank) for place in places(5, 2)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def test_a_task_that_nobody_placed_says_who_does_so():
    with pytest.raises(LookupError, match="SLURM_PROCID, .*srun, or by python -m ddl.rank.hosts"):
        Place.here({})


def test_an_interface_that_is_not_there_is_refused_with_those_that_are(monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "gpu7")
    with pytest.raises(OSError, match=r"gpu7 has no interface 'ib9' .* it has: .*lo"):
        task._own_address("ib9")


def test_the_interface_that_leads_to_an_address():
    assert task._interface_towards("127.0.0.1") == "lo"
    assert task._own_address("lo") == "127.0.0.1"


def test_the_server_keeps_more_callers_waiting_than_python_does():
    server, port = rendezvous.server(64, 2)
    try:
        with contextlib.ExitStack() as stack:  # more than five, and nobody serves them yet
            server._httpd.shutdown()
            for _ in range(64):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=0.5))
    finally:
        server._httpd.server_close()
