"""Clusters of tf.distribute with real processes: they train, and what goes wrong is told."""

import json
import os
import signal
import subprocess
import sys

import pytest

from ddl import launch
from ddl.rank.cluster import Cluster, answers
from helpers import LAUNCHING, free_ports, until

READ = """
    import os, sys, time
    from ddl.rank import cluster
    task = cluster.read()
"""
MULTI_WORKER = (
    READ
    + """
    import tensorflow as tf
    cluster.await_all()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def total(value):
        return strategy.reduce("SUM", strategy.run(lambda: value + 1.0), axis=None)
"""
)
PARAMETER_SERVER = (
    READ
    + """
    import tensorflow as tf
    cluster.await_all()
    if task.type != "chief":
        cluster.serve(task)
        print(task.name, "was let go")
        sys.exit()
    strategy = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        count = tf.Variable(0.0)

    @tf.function
    def step():
        strategy.run(lambda: count.assign_add(1.0))
"""
)


def started(path, **options):
    return launch(path, wait=False, check=False, oversubscribe=True, timeout_s=120, **options)


def ran(path, **options):
    return started(path, **options).wait()


# ---------------------------------------------------------------- it works


def test_every_rank_knows_its_task(script, nothing_left):
    run = ran(
        script(
            READ
            + """
    print(task.name, task.writes, repr(os.environ["CUDA_VISIBLE_DEVICES"]))
    """
        ),
        cluster="parameter_server",
        parameter_servers=2,
        workers=1,
    )
    assert [run.logs(rank) for rank in (0, 2, 3)] == ["chief True ''\n", "ps 0 False ''\n", "ps 1 False ''\n"]
    assert run.logs(1).startswith("worker 0 False ")
    nothing_left(run)


@pytest.mark.nightly(*LAUNCHING)
def test_a_coordinator_has_its_steps_done_and_lets_all_go(script, nothing_left):
    """With one thread a worker would wait for itself: it has more, whatever it is given.

    The others are there until the coordinator has ended: TensorFlow complains of servers that went before.
    """
    run = ran(
        script(
            PARAMETER_SERVER
            + """
    import atexit, time
    atexit.register(time.sleep, 1)  # a slow end
    for _ in range(20):
        coordinator.schedule(step)
    coordinator.join()
    print(count.numpy())
    """
        ),
        cluster="parameter_server",
        threads=1,
    )
    assert run.state == "done"
    assert run.logs(0).splitlines()[-1] == "20.0"
    last = [run.logs(rank).splitlines()[-1] for rank in (1, 2, 3)]
    assert last == [f"{task} was let go" for task in ("worker 0", "worker 1", "ps 0")]
    nothing_left(run)


# ---------------------------------------------------------------- what goes wrong


def kill_and_name(run, worker, rank, ranks, printed_by):
    """Kill a worker once these ranks have made a step; it has to be named, and nothing else."""
    logs = [run.folder / f"rank-{number}.log" for number in printed_by]
    until(lambda: all(log.exists() and "a step 5.0" in log.read_text() for log in logs))
    os.kill(run.progress().ranks[rank].pid, signal.SIGKILL)
    run.wait()
    assert run.failure.sentence.startswith(f"rank {rank} of {ranks} (worker {worker}) on ")
    assert "was killed by SIGKILL" in run.failure.sentence


@pytest.mark.slow
def test_workers_add_up_until_one_is_killed_and_named(script, nothing_left):
    steps = """
    while True:
        print("a step", float(total(tf.constant(task.index + 1.0))), flush=True)
        time.sleep(0.05)
    """
    run = started(script(MULTI_WORKER + steps), cluster="multi_worker")
    kill_and_name(run, 1, rank=1, ranks=2, printed_by=(0, 1))
    nothing_left(run)


@pytest.mark.nightly(*LAUNCHING)
def test_a_worker_that_raises_is_the_cause_and_not_who_noticed(script, nothing_left):
    steps = """
    for step in range(100):
        if step == 3 and task.index == 1:
            raise ValueError("broken on purpose")
        total(tf.constant(1.0))
    """
    run = ran(script(MULTI_WORKER + steps), cluster="multi_worker")
    assert "rank 1 of 2 (worker 1)" in run.failure.sentence
    assert run.failure.type == "ValueError"
    nothing_left(run)


@pytest.mark.nightly(*LAUNCHING)
def test_a_killed_worker_of_a_coordinator_is_named(script, nothing_left):
    """The coordinator itself would wait for it to come back, for ever."""
    steps = """
    while True:
        coordinator.schedule(step)
        coordinator.join()
        print("a step", count.numpy(), flush=True)
        time.sleep(0.05)
    """
    run = started(script(PARAMETER_SERVER + steps), cluster="parameter_server")
    kill_and_name(run, 1, rank=2, ranks=4, printed_by=(0,))
    nothing_left(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    "instead, says",
    [("sys.exit()", "(worker 1) ended and never joined"), ("time.sleep(600)", "(worker 1) never joined")],
)
def test_a_worker_that_never_joins_is_named_though_no_script_waits_for_it(
    script, nothing_left, monkeypatch, instead, says
):
    monkeypatch.setenv("DDL_CLUSTER_TIMEOUT_S", "5")
    run = ran(
        script(f"""
    import json, os, sys, time
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
        {instead}
    import tensorflow as tf
    tf.distribute.MultiWorkerMirroredStrategy()
    """),
        cluster="multi_worker",
    )
    assert run.failure.sentence == (f"rank 1 of 2 {says} the cluster, which others were waiting for")
    assert ("script.py" in run.failure.traceback) == (instead != "sys.exit()")
    nothing_left(run)


def test_a_worker_that_hangs_is_named_by_who_waits_for_it(script, nothing_left):
    run = ran(
        script(
            READ
            + """
    if task.index == 1:
        time.sleep(600)
    os.environ["DDL_CLUSTER_TIMEOUT_S"] = "1"  # from here on: ranks may start apart on a busy machine
    cluster.await_all()
    """
        ),
        cluster="multi_worker",
    )
    assert run.failure.sentence.startswith("rank 0 of 2 (worker 0)")
    assert run.failure.type == "ClusterError"
    assert "worker 0 waited 1 s for worker 1 at 127.0.0.1:" in run.failure.message
    nothing_left(run)


@pytest.mark.nightly(*LAUNCHING)
def test_a_run_that_waits_in_tensorflow_can_be_stopped(script, nothing_left):
    """TensorFlow keeps SIGTERM to itself there, and no Python runs."""
    run = started(
        script("""
    import json, os, time
    config = json.loads(os.environ["TF_CONFIG"])
    if config["task"]["index"] == 1:
        time.sleep(600)
    import tensorflow as tf
    print(json.dumps(config["cluster"]["worker"][0]), flush=True)
    tf.distribute.MultiWorkerMirroredStrategy()
    """),
        cluster="multi_worker",
    )
    until(lambda: (log := run.folder / "rank-0.log").exists() and '"\n' in log.read_text())
    address = json.loads(run.logs(0).splitlines()[-1])
    until(lambda: answers(address))
    run.stop()
    assert run.state == "stopped"
    nothing_left(run)


@pytest.mark.nightly(*LAUNCHING)
def test_scripts_started_by_hand_are_a_cluster_too(script, tmp_path):
    path = script(MULTI_WORKER + "    print(float(total(tf.constant(1.0))))\n")
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    children = [
        subprocess.Popen(
            [sys.executable, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TF_CONFIG": Cluster("worker", index, addresses).tf_config},
        )
        for index in range(2)
    ]
    try:
        for child in children:
            assert child.communicate(timeout=100)[0] == b"4.0\n" and child.returncode == 0
    finally:
        for child in children:
            child.kill()
