"""Runs through a real Slurm: two nodes on this host, with stand-ins for GPUs."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ddl import allocation, attach, launch, runs
from ddl.diagnose.machine import doctor
from ddl.follow import processes
from ddl.follow.run import RunFailed
from ddl.job.site import SiteError
from ddl.job.slurm import SlurmError, SlurmJob
from ddl.live.cells import LiveRanks
from ddl.records.jsonfiles import read_json
from helpers import LAUNCHING, ROOT, output, printed, program, started, until

WHERE = """
    import json, os
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    total = hvd.allreduce(tf.constant(float(hvd.rank() + 1)), op=hvd.Sum).numpy()
    print(json.dumps({
        "rank": hvd.rank(), "size": hvd.size(), "local_rank": hvd.local_rank(),
        "local_size": hvd.local_size(), "cross_rank": hvd.cross_rank(), "sum": float(total),
        "node": os.environ["SLURMD_NODENAME"], "gpus": os.environ["CUDA_VISIBLE_DEVICES"],
        "environment": [os.environ.get(name) for name in ("MY_API_TOKEN", "MY_SETTING")],
    }))
"""
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
TRAIN = dict(recipe="batch_norm", data_set="synthetic", train_samples=512, test_samples=200, global_batch=64)


def slurm_state(run):
    state = SlurmJob(run.id).state(fresh=True)
    return state and state.state


def test_one_node_job_passes_only_named_variables(on_slurm, script, monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", "hush-4711")
    monkeypatch.setenv("MY_SETTING", "seven")
    on_slurm(pass_environment=["MY_SETTING"])
    run = launch(script(WHERE), workers=2)
    assert run.state == "done", run.failure
    assert run.job["shell_line"].partition(" && ")[2].startswith("srun --job-name=ddl-")
    assert "horovodrun --gloo" in run.job["shell_line"]
    first, second = printed(run)
    assert first["node"] == second["node"] and first["gpus"] == second["gpus"] == "0,1"
    assert first["environment"] == second["environment"] == [None, "seven"]
    assert b"hush-4711" not in b"".join(path.read_bytes() for path in run.folder.iterdir())
    assert [(each["rank"], each["local_rank"], each["sum"]) for each in (first, second)] == [(0, 0, 3.0), (1, 1, 3.0)]
    assert run.progress().ranks[0].host == first["node"]


def test_two_node_job_has_a_task_per_rank(on_slurm, script):
    run = launch(script(WHERE), workers=4)
    assert run.state == "done", run.failure
    assert "-m ddl.start.task --network-interface lo" in run.job["shell_line"]
    keys = ("rank", "size", "local_rank", "local_size", "cross_rank", "sum", "node", "gpus")
    assert [tuple(each[key] for key in keys) for each in printed(run)] == [
        (rank, 4, rank % 2, 2, rank // 2, 10.0, f"node0{1 + rank // 2}", "0,1") for rank in range(4)
    ]
    until(lambda: processes.of_run(run.id) == [], 10)


def test_doctor_runs_a_rank_on_each_node_and_compares_the_time_limit(on_slurm):
    on_slurm(gpus_per_node=0)
    (ran,) = (check for check in doctor(submit=True).checks if check.name == "two ranks")
    assert ran.state == "OK" and all(node in ran.detail for node in ("node01", "node02")), ran
    on_slurm(time_limit="02:00:00")
    (limit,) = (check for check in doctor().checks if check.name == "time limit")
    assert limit.state == "missing" and "01:00:00" in limit.advice


def test_cells_run_on_live_ranks_of_two_nodes(on_slurm):
    on_slurm()
    ranks = LiveRanks(workers=2, nodes=2, cluster="horovod")
    try:
        ranks.execute("import os\nimport horovod.tensorflow as hvd\nimport tensorflow as tf\nhvd.init()")
        ranks.execute("total = hvd.allreduce(tf.constant(hvd.rank() + 1.0), op=hvd.Sum)\nprint(total)")
        ranks.execute("node = os.environ['SLURMD_NODENAME']")
        pulled = {name: ranks.pull(name) for name in ("total", "node")}
    finally:
        ranks.stop()
    assert [float(total) for total in pulled["total"]] == [3.0, 3.0]
    assert pulled["node"][0] != pulled["node"][1]
    assert ranks.run.state == "done" and "3.0" in ranks.run.logs(1)


def test_launches_in_an_allocation_do_not_queue(on_slurm, script):
    with allocation(nodes=2) as job:
        first, second = (launch(script(WHERE, f"{name}.py"), workers=4) for name in ("first", "second"))
        assert slurm_jobs() == {job}
    assert first.state == second.state == "done", first.failure or second.failure
    assert {each["node"] for each in printed(second)} == {"node01", "node02"}
    assert "--overlap" in second.job["shell_line"] and second.job["site"]["allocation"] == job
    assert "SLURM_JOB_ID" not in os.environ
    until(lambda: slurm_jobs() == set())
    with pytest.raises(SiteError, match="nodes"), allocation(nodes=3):
        pass


def slurm_jobs():
    """The ids of the jobs in the queue."""
    listed = subprocess.run(["squeue", "--noheader", "--format=%i"], capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def test_pending_run_can_be_cancelled(on_slurm, script, capfd):
    busy = launch(script(SLEEP), workers=4, wait=False)
    until(lambda: busy.state == "running")
    code = (
        "import signal, sys; from ddl import launch\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n    launch(sys.argv[1], workers=4)\n"
        "except KeyboardInterrupt as error:\n"
        "    print(error)\n    sys.exit(42)\n"
    )
    cell = subprocess.Popen(
        [sys.executable, "-c", code, str(script(SLEEP, "second.py"))], stdout=subprocess.PIPE, text=True
    )
    until(lambda: len(runs()) == 2)
    (waiting,) = (run for run in runs() if run.id != busy.id)
    until(lambda: waiting.progress().waiting)
    assert waiting.state == "queued" and "Resources" in waiting.progress().waiting
    while "waits: " not in (shown := cell.stdout.readline()):
        assert shown, "the cell never said what it waits for"
    assert "waits: Resources" in shown
    cell.send_signal(signal.SIGINT)
    shown = cell.communicate(timeout=90)[0]
    assert cell.returncode == 42 and "was stopped" in shown
    assert waiting.state == "stopped" and slurm_state(waiting) == "CANCELLED"
    assert busy.state == "running"
    busy.stop()
    assert busy.state == "stopped" and slurm_state(busy) == "CANCELLED"
    until(lambda: processes.of_run(busy.id) == [], 10)


def test_detached_slurm_run_is_stopped_from_the_command_line(on_slurm, script):
    code = (
        "import sys, time; from ddl import launch; "
        "print(launch(sys.argv[1], workers=4, detach=True).id, flush=True); time.sleep(600)"
    )
    with started(sys.executable, "-c", code, script(SLEEP)) as kernel:
        run = attach(kernel.stdout.readline().strip())
    until(lambda: all((run.folder / f"rank-{rank}.log").exists() for rank in range(4)))
    assert run.state == "running" and (run.folder / "batch.sh").exists()
    stopped = subprocess.run([sys.executable, "-m", "ddl.cli", "stop", run.id], capture_output=True, text=True)
    assert "stopped" in stopped.stdout, stopped.stderr
    assert attach(run.id).state == "stopped" and slurm_state(run) == "CANCELLED"
    until(lambda: processes.of_run(run.id) == [], 10)


@pytest.mark.nightly(*LAUNCHING)
def test_killed_kernel_cancels_the_slurm_job(on_slurm, script):
    code = "import sys; from ddl import launch; launch(sys.argv[1], workers=4)"
    kernel = subprocess.Popen([sys.executable, "-c", code, str(script(SLEEP))])
    until(lambda: runs() and runs()[0].state == "running")
    (run,) = runs()
    kernel.kill()
    kernel.wait()
    until(lambda: not SlurmJob(run.id).state(fresh=True).active, 40)
    assert attach(run.id).state == "stopped"
    until(lambda: processes.of_run(run.id) == [], 10)


def test_slurm_refusal_is_passed_on(on_slurm, script):
    path = script(SLEEP)
    on_slurm(partition="nonsense")
    with pytest.raises(RunFailed, match="[Ii]nvalid partition name"):
        launch(path, workers=2)
    with pytest.raises(SlurmError, match="[Ii]nvalid partition"):
        launch(path, workers=2, detach=True)
    on_slurm(gpus_per_node=16)
    with pytest.raises(RunFailed, match="Requested node configuration is not available"):
        launch(path, workers=16, oversubscribe=True)


@pytest.fixture
def failing_prolog(slurm_conf, monkeypatch, tmp_path):
    """Make the prolog fail on every node, and resume the nodes afterward."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))
    known = slurm_conf.read_text()
    slurm_conf.write_text(f"{known}Prolog={program(tmp_path / 'prolog.sh', '#!/bin/sh' + chr(10) + 'exit 1')}\n")
    output("scontrol", "reconfigure")
    yield
    output("scancel", "--user=root")
    slurm_conf.write_text(known)
    output("scontrol", "reconfigure")
    for node in ("node01", "node02"):
        subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"], capture_output=True)


def test_failing_prolog_is_quoted_and_a_held_job_says_so(on_slurm, failing_prolog, script):
    with pytest.raises(RunFailed, match="[Pp]rolog fail"):
        launch(script(SLEEP), workers=2)
    held = launch(script(SLEEP), workers=2, detach=True)
    until(lambda: "held; it will not start by itself" in repr(held), message=lambda: repr(held))
    held.stop()
    assert held.state == "stopped"


@pytest.mark.nightly(*LAUNCHING)
def test_dry_run_line_works_in_a_terminal(on_slurm, script, capfd):
    launch(script(WHERE), workers=4, dry_run=True)
    where, line = capfd.readouterr().out.splitlines()
    assert where == "# in a job of Slurm, on 2 nodes"
    pasted = output("sh", "-c", line, timeout=120)
    sums = [json.loads(line)["sum"] for line in pasted.splitlines() if line.startswith("{")]
    assert sums == [10.0] * 4 and runs() == []


@pytest.mark.nightly(*LAUNCHING)
def test_two_nodes_enter_singularity(on_slurm, script, tmp_path, monkeypatch):
    """Slurm is real, `singularity` a stand-in that checks its command line (tests/containers)."""
    stand_in = (ROOT / "tests" / "containers" / "stand_in.py").read_text()
    singularity = program(tmp_path / "programs" / "singularity", f"#!{sys.executable}\n{stand_in}")
    monkeypatch.setenv("PATH", str(singularity.parent), prepend=":")
    image = tmp_path / "ddl.sif"
    image.touch()
    on_slurm(container="singularity", image=str(image))
    run = launch(script(WHERE), workers=4)
    assert run.state == "done", run.failure
    seen = [(each["local_rank"], each["node"], each["gpus"], each["sum"]) for each in printed(run)]
    assert seen == [(local, node, "0,1", 10.0) for node in ("node01", "node02") for local in (0, 1)]
    calls = [json.loads(line) for line in singularity.with_suffix(".jsonl").read_text().splitlines()]
    assert len(calls) == 4 and all(call["options"]["--nv"] for call in calls)


@pytest.mark.nightly(*LAUNCHING)
def test_requeued_run_keeps_one_record(on_slurm):
    run = launch("train_cifar.py", workers=2, detach=True, steps=400, checkpoint_every=20, **TRAIN)
    until(lambda: (run.folder / "checkpoint.npz").exists())
    urgent = subprocess.Popen(
        ["srun", "--partition=urgent", "--nodes=2", "--exclusive", "sleep", "3"], stderr=subprocess.PIPE
    )
    until(lambda: run.state == "queued")
    urgent.communicate()
    start_now(run)
    check_one_record(run.wait(), 400)


def test_killed_rank_on_the_second_node_restarts_the_run(on_slurm):
    run = launch("train_cifar.py", workers=4, wait=False, max_restarts=2, checkpoint_every=10, steps=100, **TRAIN)
    until(lambda: run.progress().step > 20)
    os.kill(run.progress().ranks[2].pid, signal.SIGKILL)
    check_one_record(run.wait(), 100)
    (restart,) = run.restarts
    assert "rank 2 of 4 on node02 was killed by SIGKILL" in restart.reason
    assert restart.resumed_at % 10 == 0 and restart.lost_s > 0
    until(lambda: processes.of_run(run.id) == [], 10)


@pytest.mark.nightly(*LAUNCHING)
def test_multi_node_run_checkpoints_when_warned(on_slurm):
    """The signal that Slurm sends before a time limit, sent by hand."""
    run = launch("train_cifar.py", workers=4, detach=True, steps=400, **TRAIN)
    until(lambda: run.progress().step > 20)
    number = SlurmJob(run.id).state(fresh=True).id
    subprocess.run(["scancel", "--signal=URG", number], check=True)
    until(lambda: run.state == "queued")
    start_now(run)
    check_one_record(run.wait(), 400)
    assert SlurmJob(run.id).state(fresh=True).id == number


def start_now(run):
    """Slurm lets a requeued job wait for two minutes, so that its node can be looked at first.

    A node takes a start in the very second of the end before for that one's, which it has ended
    ("Job credential revoked"): so not at once.
    """
    time.sleep(2)
    number = SlurmJob(run.id).state(fresh=True).id
    subprocess.run(["scontrol", "update", f"JobId={number}", "StartTime=now"])


def check_one_record(run, steps):
    assert run.state == "done", run.failure
    assert run.result["resumed_at"] and all(0 < at < steps for at in run.result["resumed_at"])
    history = run.history
    assert history["step"].is_monotonic_increasing and history["step"].iloc[-1] == steps
    done = [event["step"] for event in run.events() if event["event"] == "step"]
    assert done == sorted(set(done))
    assert read_json(run.folder / "result.json")["samples"] == steps * 64
    progress = run.progress()
    assert list(progress.losses) == sorted(progress.losses)
