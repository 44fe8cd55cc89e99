"""Clusters of tf.distribute: who is who, what is wrong with a TF_CONFIG, and who is missing."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from ddl import launch
from ddl.cli import main
from ddl.launcher.roles import assign_roles, role_of
from ddl.rank import cluster
from ddl.rank.cluster import Cluster, ClusterError
from ddl.records import machine
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import write_json
from helpers import free_ports

PAIR = {"worker": ["127.0.0.1:1111", "127.0.0.1:1112"]}
SERVED = {"chief": ["a:1"], "worker": ["a:2", "b:2", "a:3"], "ps": ["b:1"]}


def config(spec, type="worker", index=0):
    return {"TF_CONFIG": json.dumps({"cluster": spec, "task": {"type": type, "index": index}})}


# ---------------------------------------------------------------- who is who


def test_ranks_of_a_multi_worker_cluster_are_its_workers():
    assert assign_roles("multi_worker", 2) == (("worker", 0), ("worker", 1))


def test_the_coordinator_comes_first_and_the_parameter_servers_last():
    assert assign_roles("parameter_server", 2, 2) == (("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1))


def test_horovods_ranks_have_no_roles():
    assert assign_roles("horovod", 4) == ()
    assert role_of({"workers": 4}, 1) == ""


def test_a_role_is_named():
    job = {"cluster": "parameter_server", "workers": 2, "parameter_servers": 1}
    assert [role_of(job, rank) for rank in range(4)] == ["chief", "worker 0", "worker 1", "ps 0"]


def test_a_cluster_knows_its_tasks():
    there = Cluster("worker", 2, SERVED["worker"], SERVED["chief"], SERVED["ps"])
    assert there.tasks == {"chief": "a:1", "worker 0": "a:2", "worker 1": "b:2", "worker 2": "a:3", "ps 0": "b:1"}
    assert (there.name, there.address, there.writes) == ("worker 2", "a:3", False)
    assert there.spec == SERVED
    assert json.loads(there.tf_config) == {"cluster": SERVED, "task": {"type": "worker", "index": 2}}


@pytest.mark.parametrize(
    "type, index, local_rank", [("worker", 0, 0), ("worker", 1, 0), ("worker", 2, 1), ("chief", 0, 0), ("ps", 0, 0)]
)
def test_workers_are_counted_on_each_host(type, index, local_rank):
    there = Cluster(type, index, SERVED["worker"], SERVED["chief"], SERVED["ps"])
    assert there.local_rank == local_rank


@pytest.mark.parametrize(
    "spec, type, writer",
    [(PAIR, "worker", True), (SERVED, "chief", True), (SERVED, "worker", False), (SERVED, "ps", False)],
)
def test_one_task_writes(spec, type, writer):
    there = Cluster(type, 0, spec["worker"], spec.get("chief", ()), spec.get("ps", ()))
    assert there.writes is writer


# ---------------------------------------------------------------- TF_CONFIG


def test_what_a_rank_is_told_is_what_its_script_reads():
    one, two = free_ports(2)
    there = Cluster("worker", 1, (f"127.0.0.1:{one}", f"127.0.0.1:{two}"))
    assert cluster.read({"TF_CONFIG": there.tf_config}) == there


@pytest.mark.parametrize(
    "environment, message",
    [
        ({}, r"not set: start the script with launch\(.*multi_worker"),
        ({"TF_CONFIG": "{'cluster': 1}"}, r"no JSON: .* at character 2 "),
        ({"TF_CONFIG": '{"cluster": {}}'}, r'needs "cluster" .* and "task"'),
        ({"TF_CONFIG": "[1]"}, r'needs "cluster" .* and "task"'),
        (config(PAIR, "boss"), r"type 'boss' is not one of: chief, worker, ps"),
        (config({**PAIR, "boss": ["h:1"]}), r"type 'boss', which is not one of: chief, worker, ps"),
        (config(PAIR, index=2), r"index 2, but the cluster has 2 tasks .* from 0 to 1 works"),
        (config(PAIR, index=-1), r"index -1, but"),
        (config(PAIR, index="0"), r"index '0', but"),
        (config(PAIR, "ps"), r'0 tasks of that type: give "cluster" a list "ps"'),
        (config({**PAIR, "ps": ["h:1"]}), r'parameter servers .* no chief.*a list "chief"'),
        (config({"chief": ["h:1"]}, "chief"), r'no workers: give "cluster" a list "worker"'),
        (config({**PAIR, "chief": ["h:1", "h:2"]}), r"2 chiefs: one works"),
        (config({"worker": "h:1"}), r"'h:1': a list of addresses is needed"),
        (config({"worker": ["h"]}), r"worker 0 has the address 'h': host:port is needed"),
        (config({"worker": ["h:99999"]}), r"'h:99999': host:port is needed"),
        (config({"worker": ["h:1", "h:1"]}), r"h:1, which another task has too"),
    ],
)
def test_a_wrong_tf_config_says_what_is_wrong(environment, message):
    with pytest.raises(ClusterError, match=message):
        cluster.read(environment)


def test_a_port_in_use_is_refused():
    there = Cluster("worker", 0, ("127.0.0.1:" + str(free_ports(1)[0]),))
    port = there.address.rpartition(":")[2]
    code = f"import socket; s = socket.create_server(('', {port})); print('up', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(
            ClusterError, match=f"worker 0, this task, cannot have port {port}: Address already in use. End the program"
        ):
            cluster.read({"TF_CONFIG": there.tf_config})
        other.communicate(b"\n")
    assert cluster.read({"TF_CONFIG": there.tf_config}) == there


def test_ones_own_server_is_not_in_the_way():
    there = Cluster("worker", 0, ("127.0.0.1:" + str(free_ports(1)[0]),))
    with socket.create_server(("", int(there.address.rpartition(":")[2]))):
        assert cluster.read({"TF_CONFIG": there.tf_config}) == there


def test_a_reserved_port_is_kept_for_a_server_of_this_process(monkeypatch):
    monkeypatch.setattr(cluster, "_reserved", [])
    port = int(cluster.reserve()["address"].rpartition(":")[2])
    with pytest.raises(OSError, match="in use"), socket.socket() as stranger:
        stranger.bind(("", port))
    with socket.create_server(("", port)):  # says SO_REUSEADDR, as TensorFlow's server does
        assert cluster.answers(f"127.0.0.1:{port}")
    for each in cluster._reserved:
        each.close()


# ---------------------------------------------------------------- waiting


def test_workers_wait_for_each_other():
    addresses = tuple(f"127.0.0.1:{port}" for port in free_ports(3))
    code = (
        "import socket; from ddl.rank import cluster; c = cluster.await_all(seconds=30); "
        "server = socket.create_server(('', int(c.address.rpartition(':')[2]))); "
        "print('went ahead', flush=True); input()"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TF_CONFIG": Cluster("worker", index, addresses).tf_config},
        )
        for index in range(3)
    ]
    try:
        assert [child.stdout.readline() for child in children] == [b"went ahead\n"] * 3
    finally:
        for child in children:
            child.communicate(b"\n")


def test_a_worker_that_does_not_answer_is_named():
    first, second, third = (f"127.0.0.1:{port}" for port in free_ports(3))
    with socket.create_server(("127.0.0.1", int(second.rpartition(":")[2]))), pytest.raises(ClusterError) as caught:
        cluster.await_all(Cluster("worker", 0, (first, second, third)), seconds=0.2)
    assert f"worker 0 waited 0.2 s for worker 2 at {third}: nobody" in str(caught.value)


def test_nothing_answers_at_the_first_tasks_port_before_its_server():
    """TensorFlow's servers would call it, and give up when it closes."""
    addresses = tuple(f"127.0.0.1:{port}" for port in free_ports(2))

    def wait():
        with pytest.raises(ClusterError):
            cluster.await_all(Cluster("worker", 0, addresses), 0.5)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while waiting.is_alive():
        assert not cluster.answers(addresses[0])


def test_those_that_serve_wait_for_nobody():
    there = Cluster("worker", 0, ("127.0.0.1:1",), ("127.0.0.1:2",), ("127.0.0.1:3",))
    assert cluster.await_all(there, seconds=0) is there


def says(folder, rank, address, attempt="0-0-0"):
    write_json(folder.rank(rank), {"rank": rank, "address": address, "attempt": attempt})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    return RunFolder(tmp_path)


def test_ranks_find_each_other_through_their_files(folder):
    them = assign_roles("parameter_server", 2, 1)
    for rank in range(4):
        says(folder, rank, f"10.0.0.{rank}:2222")
    assert cluster.assemble(folder, 3, them) == Cluster(
        "ps", 0, ("10.0.0.1:2222", "10.0.0.2:2222"), ("10.0.0.0:2222",), ("10.0.0.3:2222",)
    )


def test_a_rank_that_does_not_start_is_named(folder):
    them = assign_roles("parameter_server", 2, 1)
    for rank in (0, 1, 3):
        says(folder, rank, f"10.0.0.{rank}:2222")
    with pytest.raises(ClusterError, match=r"^worker 1 \(rank 2\) did not start within 0.1 s"):
        cluster.assemble(folder, 0, them, seconds=0.1)


def test_what_an_earlier_start_of_a_requeued_job_left_does_not_count(folder, monkeypatch):
    says(folder, 0, "10.0.0.1:1", attempt="7-0-0")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    with pytest.raises(ClusterError, match=r"worker 0 \(rank 0\) did not start"):
        cluster.assemble(folder, 0, assign_roles("multi_worker", 1), seconds=0)


def test_the_launcher_sees_who_never_joined(folder, monkeypatch):
    monkeypatch.setattr(cluster, "LAUNCHER_GRACE_S", 0)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    for rank in (0, 1):
        says(folder, rank, addresses[rank])
    with socket.create_server(("127.0.0.1", int(addresses[1].rpartition(":")[2]))):
        assert cluster.first_absent(folder, assign_roles("multi_worker", 3), 0.2) == [0, 2]


def test_the_launcher_sees_that_all_joined(folder):
    (port,) = free_ports(1)
    says(folder, 0, f"127.0.0.1:{port}")
    with socket.create_server(("127.0.0.1", port)):
        assert cluster.first_absent(folder, assign_roles("multi_worker", 1), 0) == []


def test_who_coordinates_lets_the_others_go(folder, monkeypatch):
    cluster.dismiss()  # outside a run nobody could hear it
    monkeypatch.setenv("DDL_RUN_DIR", str(folder.path))
    cluster.dismiss()
    assert folder.dismissed.exists()


# ---------------------------------------------------------------- GPUs


@pytest.mark.parametrize(
    "rank, local_rank, seen", [(0, 0, ""), (1, 1, "4"), (2, 2, "5"), (3, 0, "4"), (4, 1, "5"), (5, 2, "")]
)
def test_each_worker_sees_one_gpu_of_its_host_and_the_others_none(rank, local_rank, seen):
    """Three tasks on each of two hosts: chief, worker, worker; worker, worker, server."""
    them = assign_roles("parameter_server", 4, 1)
    assert cluster.visible_devices(rank, local_rank, them, ["4", "5"]) == seen


def test_more_workers_than_gpus_share_them():
    them = assign_roles("multi_worker", 3)
    assert [cluster.visible_devices(k, k, them, ["0", "1"]) for k in range(3)] == ["0", "1", "0"]
    assert cluster.visible_devices(1, 1, them, []) == ""


@pytest.mark.parametrize("said, numbers", [("4, 5", ["4", "5"]), ("", []), (None, ["0", "1"])])
def test_gpus_are_numbered_as_the_environment_does(monkeypatch, said, numbers):
    monkeypatch.setattr(machine, "gpu_names", lambda: ("H100", "H100"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if said is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    assert machine.gpu_numbers() == numbers


# ---------------------------------------------------------------- from the command line


def test_the_command_line_launches_the_same_cluster(script, capsys):
    path = script("")
    assert (
        main(
            [
                "run",
                "--dry-run",
                "--oversubscribe",
                "--cluster",
                "parameter_server",
                "--parameter-servers",
                "2",
                str(path),
                "--cluster",
                "own",
            ]
        )
        == 0
    )
    typed = capsys.readouterr().out
    launch(
        path,
        dry_run=True,
        oversubscribe=True,
        cluster="parameter_server",
        parameter_servers=2,
        args=("--cluster", "own"),
    )
    assert typed == capsys.readouterr().out
    assert "-np 5 " in typed and typed.rstrip().endswith(
        f"--cluster parameter_server --parameter-servers 2 {path} --cluster own"
    )


def test_the_command_line_refuses_a_cluster_that_cannot_be(script, capsys):
    assert main(["run", "--parameter-servers", "2", str(script(""))]) == 2
    assert 'only cluster="parameter_server" has any' in capsys.readouterr().err
