"""Clusters of tf.distribute with real processes: they train, and what goes wrong is told."""

import json
import os
import signal

import pytest

from ddl import launch
from ddl.start.tf_config import answers
from helpers import LAUNCHING, until

READ = """
    import os, sys, time
    from ddl import cluster
    task = cluster.read()
"""
MULTI_WORKER = f"""{READ}
    import tensorflow as tf
    cluster.await_all()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def total(value):
        return strategy.reduce("SUM", strategy.run(lambda: value + 1.0), axis=None)
"""
PARAMETER_SERVER = f"""{READ}
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


@pytest.fixture
def started(script):
    """Return a function that starts ranks of a script; one that has a `cluster` other than "multi_worker" says so."""
    common = dict(wait=False, check=False, oversubscribe=True, timeout_s=120)
    return lambda text, cluster="multi_worker", **options: launch(script(text), cluster=cluster, **common, **options)


def test_every_rank_knows_its_task(started, nothing_left):
    prints = """    print(task.name, task.writes, repr(os.environ["CUDA_VISIBLE_DEVICES"]))\n"""
    run = started(READ + prints, "parameter_server", parameter_servers=2, workers=1).wait()
    assert [run.logs(rank) for rank in (0, 2, 3)] == ["chief True ''\n", "ps 0 False ''\n", "ps 1 False ''\n"]
    assert run.logs(1).startswith("worker 0 False ")


@pytest.mark.nightly(*LAUNCHING)
def test_coordinator_runs_its_steps_and_ends_the_servers(started, nothing_left):
    """With one thread, a worker would deadlock, so it always has more.

    The others are there until the coordinator has ended: TensorFlow complains of servers that went before.
    """
    steps = """
    import atexit, time
    atexit.register(time.sleep, 1)  # a slow end
    for _ in range(20):
        coordinator.schedule(step)
    coordinator.join()
    print(count.numpy())
    """
    run = started(PARAMETER_SERVER + steps, "parameter_server", threads=1).wait()
    assert run.state == "done"
    assert run.logs(0).splitlines()[-1] == "20.0"
    last = [run.logs(rank).splitlines()[-1] for rank in (1, 2, 3)]
    assert last == [f"{task} was let go" for task in ("worker 0", "worker 1", "ps 0")]


STEP = """
    while True:
        print("a step", float(total(tf.constant(task.index + 1.0))), flush=True)
        time.sleep(0.05)
"""
SCHEDULED = """
    while True:
        coordinator.schedule(step)
        coordinator.join()
        print("a step", count.numpy(), flush=True)
        time.sleep(0.05)
"""


@pytest.mark.parametrize(
    "cluster, text, rank, ranks, printed_by",
    [
        ("multi_worker", MULTI_WORKER + STEP, 1, 2, (0, 1)),
        # The coordinator itself would wait for it to come back, for ever.
        pytest.param(
            *("parameter_server", PARAMETER_SERVER + SCHEDULED, 2, 4, (0,)), marks=pytest.mark.nightly(*LAUNCHING)
        ),
    ],
    ids=["workers", "a coordinator"],
)
def test_killed_worker_is_named(started, nothing_left, cluster, text, rank, ranks, printed_by):
    run = started(text, cluster)
    logs = [run.folder / f"rank-{number}.log" for number in printed_by]
    until(lambda: all(log.exists() and "a step 5.0" in log.read_text() for log in logs))
    os.kill(run.progress().ranks[rank].pid, signal.SIGKILL)
    run.wait()
    assert run.failure.sentence.startswith(f"rank {rank} of {ranks} (worker 1) on ")
    assert "was killed by SIGKILL" in run.failure.sentence


def test_worker_that_never_joins_is_named(started, nothing_left, monkeypatch):
    monkeypatch.setenv("DDL_STALL_S", "1")
    run = started("""
    import json, os, sys, time
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
        time.sleep(600)
    import tensorflow as tf
    print("waiting", flush=True)
    tf.distribute.MultiWorkerMirroredStrategy()
    """)
    (note,) = until(lambda: run.progress().notes, 60)
    assert "rank 0 is waiting for rank 1\n" in note and "script.py" in note
    run.stop()


@pytest.mark.nightly(*LAUNCHING)
def test_run_blocked_in_tensorflow_can_be_stopped(started, nothing_left):
    """TensorFlow keeps SIGTERM to itself there, and no Python runs."""
    run = started("""
    import json, os, time
    config = json.loads(os.environ["TF_CONFIG"])
    if config["task"]["index"] == 1:
        time.sleep(600)
    import tensorflow as tf
    print(json.dumps(config["cluster"]["worker"][0]), flush=True)
    tf.distribute.MultiWorkerMirroredStrategy()
    """)
    until(lambda: (log := run.folder / "rank-0.log").exists() and '"\n' in log.read_text())
    address = json.loads(run.logs(0).splitlines()[-1])
    until(lambda: answers(address))
    run.stop()
    assert run.state == "stopped"
