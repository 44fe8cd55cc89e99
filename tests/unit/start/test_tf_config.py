"""Clusters of tf.distribute: who is who, what is wrong with a TF_CONFIG, and who is missing."""

import socket
import sys

import pytest

from ddl import cluster
from ddl.job.tf_cluster_roles import assign_roles, role_of
from ddl.start import devices, rendezvous
from ddl.start.rendezvous import Slot
from ddl.start.tf_config import Cluster, ClusterError
from helpers import free_ports


def test_roles():
    """The coordinator comes first and the parameter servers last; all Horovod ranks are equal."""
    assert assign_roles("multi_worker", 2) == (("worker", 0), ("worker", 1))
    assert assign_roles("parameter_server", 2, 2) == (("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1))
    assert assign_roles("horovod", 4) == () and role_of({"workers": 4}, 1) == ""
    job = {"cluster": "parameter_server", "workers": 2, "parameter_servers": 1}
    assert [role_of(job, rank) for rank in range(4)] == ["chief", "worker 0", "worker 1", "ps 0"]


WRONG = [
    ({}, "not set"),
    ({"TF_CONFIG": "{'cluster': 1}"}, "JSON.*char 1"),
    ({"TF_CONFIG": '{"cluster": {}}'}, "'task'"),
]


def test_a_wrong_tf_config_says_what_is_wrong():
    for environment, message in WRONG:
        with pytest.raises(ClusterError, match=message):
            cluster.read(environment)


def test_unresponsive_worker_is_named(monkeypatch):
    monkeypatch.setenv("DDL_CLUSTER_TIMEOUT_S", "0.2")
    first, second, third = (f"127.0.0.1:{port}" for port in free_ports(3))
    with socket.create_server(("127.0.0.1", int(second.rpartition(":")[2]))), pytest.raises(ClusterError) as caught:
        cluster.await_all(Cluster("chief", 0, (second, third), (first,)))
    assert f"worker 1 at {third}" in str(caught.value) and second not in str(caught.value)
    task = Cluster("worker", 0, (first,), (second,), (third,))
    assert cluster.await_all(task) is task


@pytest.fixture
def server(monkeypatch):
    """A rendezvous server that this process knows, as a rank does; it needs no Horovod."""
    monkeypatch.setitem(sys.modules, "horovod", None)  # importing it fails
    listening = rendezvous.listen()
    started, port = rendezvous.serve(listening, 4, 1, "torchrun"), listening.getsockname()[1]
    for name, value in rendezvous.variables("127.0.0.1", port).items():
        monkeypatch.setenv(name, value)
    yield
    started.shutdown()
    started.server_close()


def test_texts_are_kept_for_all_ranks(server):
    assert rendezvous.read("address-0") is None
    for text in ("127.0.0.1:4711", "ü"):
        rendezvous.write("address-0", text)
        assert rendezvous.read("address-0") == text


def test_rank_that_does_not_start_is_named(server, monkeypatch):
    roles = assign_roles("parameter_server", 2, 1)
    monkeypatch.setattr(cluster, "_reserved", [])
    monkeypatch.setenv("DDL_CLUSTER_TIMEOUT_S", "0.1")
    for rank in (0, 1, 3):
        monkeypatch.setenv("DDL_ADDRESS", f"10.0.0.{rank}")
        cluster.publish(rank)
    with pytest.raises(ClusterError, match=r"^worker 1 \(rank 2\)"):
        cluster.assemble(0, roles)
    rendezvous.write("address-2", "10.0.0.2:2222")
    found = cluster.assemble(3, roles)
    assert (found.name, found.spec["worker"][1]) == ("ps 0", "10.0.0.2:2222")
    assert [address.rpartition(":")[0] for address in found.tasks.values()] == [f"10.0.0.{rank}" for rank in range(4)]
    port = int(found.tasks[found.name].rpartition(":")[2])  # kept for a server of this process
    with pytest.raises(OSError, match="in use"), socket.socket() as stranger:
        stranger.bind(("", port))
    with socket.create_server(("", port)):  # says SO_REUSEADDR, as TensorFlow's server does
        assert cluster.answers(f"127.0.0.1:{port}")
    for each in cluster._reserved:
        each.close()


def test_a_rank_of_pytorch_gets_torchruns_variables(server, monkeypatch):
    monkeypatch.setattr(cluster, "interface_of", {"10.0.0.2": "ib0"}.__getitem__)
    rendezvous.write("address-0", "10.0.0.1:29400")
    horovods = Slot(rank=3, size=4, local_rank=1, cross_rank=1, cross_size=2).horovod
    assert cluster.torchrun({**horovods, "DDL_ADDRESS": "10.0.0.2"}) == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29400",
        "GLOO_SOCKET_IFNAME": "ib0",
        "NCCL_SOCKET_IFNAME": "ib0",
    }


def test_each_worker_sees_one_gpu_of_its_host_and_the_others_none():
    """Three tasks on each of two hosts: chief, worker, worker; worker, worker, server. More workers share GPUs."""
    roles = assign_roles("parameter_server", 4, 1)
    seen = [devices.visible_devices(rank, rank % 3, roles, ["4", "5"]) for rank in range(6)]
    assert seen == ["", "4", "5", "4", "5", ""]
    roles = assign_roles("multi_worker", 3)
    assert [devices.visible_devices(k, k, roles, ["0", "1"]) for k in range(3)] == ["0", "1", "0"]
    assert devices.visible_devices(1, 1, roles, []) == ""
