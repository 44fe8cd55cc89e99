"""Launching, with real processes under the real horovodrun."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ddl import attach, launch, runs
from ddl.cli import main
from ddl.diagnose import site as diagnose
from ddl.follow import processes
from ddl.job.site import Site
from ddl.records.machine import host_name
from helpers import printed, until

ECHO = """
    import json, os, sys
    print(json.dumps({
        "rank": int(os.environ["HOROVOD_RANK"]), "size": int(os.environ["HOROVOD_SIZE"]),
        "argv": sys.argv, "cwd": os.getcwd(), "name": __name__, "file": __file__,
        "path0": sys.path[0], "threads": os.environ["OMP_NUM_THREADS"],
        "main": sys.modules["__main__"].__dict__ is globals(),
    }))
"""


def test_script_environment_matches_python_and_run_is_recorded(script, tmp_path, monkeypatch):
    awkward = ["a b", "it's", '"q"', "$HOME", "`x`", "*", "", "a;b&c|d", "é"]
    awkward += ["--threads", "-np", "--m", "-n", "--gloo-t=1"]
    path = script(ECHO, "my folder/my $cript.py")
    folder = tmp_path / "work dir"
    folder.mkdir()
    monkeypatch.chdir(folder)
    run = launch(path, name="echo", args=awkward, threads=3, oversubscribe=True)
    seen = {"size": 2, "argv": [str(path), *awkward], "cwd": str(folder), "name": "__main__", "file": str(path)}
    seen |= {"path0": str(path.parent), "threads": "3", "main": True}
    assert printed(run) == [seen | {"rank": rank} for rank in (0, 1)]
    names = "command.sh job.json launcher.jsonl launcher.log rank-0.json rank-0.log rank-1.json rank-1.log"
    assert sorted(path.name for path in run.folder.iterdir()) == [*names.split(), "stack-0.txt", "stack-1.txt"]
    assert run.job["name"] == "echo" and run.job["args"] == awkward
    assert (run.folder / "command.sh").read_text().splitlines()[1] == run.job["shell_line"]
    assert attach(run.id[:-2]).folder == run.folder
    with pytest.raises(LookupError, match="the latest"):
        attach("1999")


TRAIN = """
    import horovod.tensorflow as hvd
    import tensorflow as tf
    hvd.init()
    tf.random.set_seed(hvd.rank())
    weights = tf.Variable(tf.ones([3]))
    optimizer = tf.keras.optimizers.SGD(0.1)
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(weights) * tf.random.uniform([3]))
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights]))
    print(sys.argv[1:], os.environ["OMP_NUM_THREADS"], weights.numpy().tolist())
"""
TASKS = """
    from ddl import cluster
    task = cluster.read()
    print(task.name, len(task.tasks))
"""
SERVERS = """
    from ddl import cluster
    import tensorflow as tf
    task = cluster.await_all()
    if task.type != "chief":
        cluster.serve(task)
        sys.exit()
    coordinator = tf.distribute.coordinator.ClusterCoordinator(
        tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    )
    value = coordinator.schedule(tf.function(lambda: tf.constant(7)))
    coordinator.join()
    print(value.fetch(), len(task.tasks))
"""


@pytest.mark.parametrize("cluster, text", [("horovod", TRAIN), ("multi_worker", TASKS), ("parameter_server", SERVERS)])
def test_printed_line_works_under_stock_horovodrun(script, cluster, text):
    path = script("    import os, sys\n" + text)
    run = launch(path, args=["a b", "-np"], cluster=cluster, oversubscribe=True, threads=1)
    assert run.job["shell_line"].split(" && ")[1].split()[0] == str(Path(sys.executable).with_name("horovodrun"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DDL_RUN")}
    stock = subprocess.run(
        ["sh", run.folder / "command.sh"], env=environment, capture_output=True, text=True, timeout=200
    )
    assert stock.returncode == 0, stock.stdout + stock.stderr
    ranks = range(run.job["ranks"])
    pasted = [re.findall(rf"^\[{rank}\]<stdout>:(.*)$", stock.stdout, re.MULTILINE) for rank in ranks]
    assert pasted == [run.logs(rank).splitlines() for rank in ranks]
    assert any(pasted) and len(runs()) == 1


UNTIL = """
    import os, sys, time
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.02)
"""


def test_environment_reaches_ranks_but_no_command_line(script, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", "hush-4711")
    prints = """
    import json
    print(json.dumps({"secrets": [os.environ["MY_API_TOKEN"], os.environ["GIVEN_TOKEN"]]}))
    """
    path = script(UNTIL + prints)
    looked = tmp_path / "looked"
    run = launch(path, args=[looked], timeout_s=60, wait=False, oversubscribe=True, env={"GIVEN_TOKEN": "hush-4712"})
    until(lambda: run.state not in ("queued", "starting"))
    seen = "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in processes.of_run(run.id))
    looked.touch()
    run.wait()
    assert seen.count("ddl.start.") >= 2 and "hush-" not in seen
    assert [output["secrets"] for output in printed(run)] == [["hush-4711", "hush-4712"]] * 2
    assert all(b"hush-" not in file.read_bytes() for file in run.folder.iterdir() if not file.name.startswith("rank-"))


def test_simultaneous_runs_do_not_interfere(script, nothing_left):
    path = script(ECHO)
    both = [launch(path, args=[name], wait=False, oversubscribe=True) for name in "ab"]
    for run, name in zip(both, "ab"):
        assert run.wait().state == "done"
        assert all(output["argv"][1] == name for output in printed(run))
    assert [run.id for run in runs()] == sorted(run.id for run in both)


def test_detached_run_outlives_its_kernel(script, tmp_path, nothing_left):
    path, interrupted = script("    print('up', flush=True)" + UNTIL + "    print('through')"), tmp_path / "interrupted"
    code = (
        "import sys; from ddl import launch; "
        "print(launch(sys.argv[1], args=sys.argv[2:], timeout_s=60, oversubscribe=True, detach=True).id)"
    )
    kernel = subprocess.run([sys.executable, "-c", code, path, interrupted], capture_output=True, text=True)
    run = attach(kernel.stdout.strip())
    follow = (
        "import signal, sys; from ddl import attach; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); attach(sys.argv[1]).wait()"
    )
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    follower = subprocess.Popen([sys.executable, "-c", follow, run.id], **pipes)
    while "up" not in (line := follower.stdout.readline()):
        assert line, follower.stderr.read()
    follower.send_signal(signal.SIGINT)
    assert "continues: attach" in follower.communicate(timeout=30)[1]
    interrupted.touch()
    assert run.wait().state == "done"
    assert [run.logs(rank).split() for rank in (0, 1)] == [["up", "through"]] * 2


def test_run_starts_from_the_command_line(script, capfd):
    assert main(["run", "--oversubscribe", "--name", "cli", str(script(ECHO)), "--recipe", "a b"]) == 0
    shown = capfd.readouterr().out
    (run,) = runs()
    assert run.job["args"] == ["--recipe", "a b"] and run.job["shell_line"] in shown
    assert '[1] {"rank": 1' in shown  # a script without records: what it prints is shown
    assert main(["compare", run.id]) == 0
    assert "duration, s" in capfd.readouterr().out


def test_doctor_starts_two_ranks():
    found = diagnose.two_ranks(replace(Site.detect(), gpus_per_node=0))
    assert found.state == "OK" and found.detail.count(f"{host_name()} (") == 2


@pytest.mark.parametrize("elastic", [False, True])
def test_rendezvous_server_listens_on_the_loopback_interface_only(script, elastic, nothing_left):
    path = script("""
    import json, os, psutil
    port = int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    found = [each.laddr.ip for each in psutil.net_connections("tcp") if each.status == "LISTEN"
             and each.laddr.port == port]
    print(json.dumps(found))
    """)
    assert printed(launch(path, workers=1, elastic=elastic)) == [["127.0.0.1"]]
