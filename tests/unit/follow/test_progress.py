"""State, numbers and failures of a run, read from the files in its folder."""

import pytest

from ddl.display.chart import chart_svg
from ddl.display.summary import summary
from ddl.follow.progress import progress_of
from ddl.records.jsonfiles import append_json_line, write_json


class Folder:
    """A run folder written by hand; times are seconds after the launch."""

    def __init__(self, path):
        self.path = path
        self.job()

    def job(self, **fields):
        job = {"id": "r1", "name": "configuration", "created": 0.0, "workers": 2, "shell_line": "cd / && x"}
        write_json(self.path / "job.json", job | fields)

    def launcher(self, time, event, **fields):
        append_json_line(self.path / "launcher.jsonl", {"event": event, "time": time, **fields})

    def event(self, time, event, **fields):
        append_json_line(self.path / "events.jsonl", {"event": event, "time": time, **fields})

    def rank(self, rank, **fields):
        info = {"rank": rank, "host": "node1", "pid": 10 + rank, "started": 1.0}
        write_json(self.path / f"rank-{rank}.json", info | fields)

    def error(self, rank, time, type, message="", **fields):
        error = {"rank": rank, "host": "node1", "time": time, "type": type, "message": message}
        write_json(self.path / f"error-{rank}.json", {**error, "traceback": f"{type}: {message}", **fields})

    def exit(self, rank, code, **fields):
        """Records of a rank's task on several nodes."""
        exit = {"rank": rank, "host": f"node{rank}", "code": code, "time": 8.0 + rank}
        write_json(self.path / f"exit-{rank}.json", exit | fields)

    def progress(self, now=10.0, alive=True):
        return progress_of(self.path, alive=alive, now=now)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_states_follow_one_another(folder):
    assert folder.progress().state == "queued"
    folder.launcher(0.5, "launched", pid=1)
    assert folder.progress().state == "starting"
    folder.rank(0)
    folder.rank(1)
    folder.event(3.0, "start", steps=20, epochs=2)
    assert folder.progress().state == "running"
    folder.event(4.0, "step", step=1, epoch=0.1, samples=64, loss=2.3)
    assert folder.progress().state == "training"
    lost = folder.progress(now=1000.0, alive=False)
    assert (lost.state, lost.elapsed_s) == ("lost", 4.0) and lost.failure
    for nonsense in ("x", None, 3, ["done"]):
        folder.launcher(8.0, "ended", state=nonsense)
    assert summary(folder.progress(alive=False)).startswith("? ")
    folder.launcher(9.0, "ended", state="done")
    progress = folder.progress(now=100.0)
    assert (progress.state, progress.elapsed_s, progress.over) == ("done", 9.0, True)
    write_json(folder.path / "result.json", {"images_per_s": 250.0, "loss": 2.1, "test_accuracy": None})
    progress = folder.progress()  # the same as in tables
    assert (progress.images_per_s, progress.loss, progress.test_accuracy) == (250.0, 2.1, None)
    (folder.path / "requeue").write_text("{}")  # it made way at its time limit
    assert folder.progress().state == "stopped"
    folder.launcher(11.0, "launched", pid=2)
    assert folder.progress().state == "training"


def test_training_is_folded_into_numbers(folder):
    folder.launcher(0.5, "launched", pid=1)
    folder.event(3.0, "start", steps=21, epochs=2.0, data={"name": "synthetic"})
    folder.event(3.1, "note", message="CIFAR-10 is not here")
    folder.event(4.0, "step", step=1, epoch=0.1, samples=64, loss=2.3, images_per_s=None)
    folder.event(8.0, "step", step=11, epoch=1.1, samples=704, loss=1.5, images_per_s=160.0)
    folder.event(9.0, "evaluation", step=11, epoch=1.1, samples=704, test_accuracy=0.35)
    progress = folder.progress(now=10.0)
    assert progress.time_to_first_step_s == 4.0
    assert (progress.step, progress.steps, progress.epochs) == (11, 21, 2.0)
    assert progress.images_per_s == 160.0 and progress.test_accuracy == 0.35
    assert progress.losses == ((64, 2.3), (704, 1.5)) and len(progress.history) == 1
    assert progress.remaining_s == pytest.approx(10 * 0.4 - 2.0)
    assert progress.notes == ("CIFAR-10 is not here",) and progress.data == {"name": "synthetic"}


def test_any_number_that_a_script_records_is_shown(folder):
    folder.rank(0)
    for step in (1, 2, 3):
        folder.event(step, "step", step=10 * step, steps=60, loss=1 / step, val_mse=step / 4, name="x", flag=True)
    folder.event(4.0, "evaluation", step=30, bleu=27.5)
    progress = folder.progress()
    assert (progress.step, progress.steps, progress.own) == (30, 60, {"val_mse": 0.75, "bleu": 27.5})
    assert progress.over_steps and progress.losses == ((10, 1.0), (20, 0.5), (30, 1 / 3))
    assert progress.curves["val_mse"] == ((10, 0.25), (20, 0.5), (30, 0.75))
    assert "step 30 of 60" in summary(progress) and "val_mse 0.75 · bleu 27.5" in summary(progress)
    chart = chart_svg(progress)
    assert chart.count("<svg") == 3 and "val_mse over step" in chart and "samples" not in chart
    folder.event(5.0, "step", step=40, samples=640, loss=0.2)  # a script that counts samples is drawn over these
    assert not folder.progress().over_steps and folder.progress().losses[-1] == (640, 0.2)


def test_repeated_steps_of_a_resumed_run_count_once(folder):
    folder.launcher(0.5, "launched", pid=1)
    folder.event(1.0, "start", step=0, steps=40, epochs=4.0)
    folder.event(1.1, "note", message="generated pictures")
    for step in (1, 10, 20):
        folder.event(1.0 + step, "step", step=step, epoch=step / 10, samples=8 * step, loss=2.0)
    folder.event(21.5, "evaluation", step=20, epoch=2.0, samples=160, test_accuracy=0.9)
    folder.event(30.0, "start", step=10, steps=40, epochs=4.0)
    folder.event(31.0, "step", step=11, epoch=1.1, samples=88, loss=1.0)
    progress = folder.progress(now=32.0)
    assert progress.losses == ((8, 2.0), (80, 2.0), (88, 1.0))
    assert (progress.step, progress.history, progress.test_accuracy) == (11, (), None)
    assert progress.notes == ("generated pictures",)


# ---------------------------------------------------------------- why a run failed

LOST_TOUCH = "HorovodInternalError", "Horovod has been shut down. Details ..."
PEER_CLOSED = (
    "terminate called after throwing an instance of 'gloo::IoException'\n"
    "  what():  [/a/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:2\n"
)
NO_ROOM = "[Errno 28] No space left on device: '/runs/x'"
UNKNOWN = "unrecognized arguments: --epochz 1"
STACK = (
    "Current thread 0x1 (most recent call first):\n"
    '  File "/me/train.py", line 7 in <module>\n'
    '  File "/course/ddl/start/worker.py", line 80 in _become\n'
)
SLURM = dict(job="17", nodes="node01")
CLUSTER = dict(processes=4, cluster="parameter_server", parameter_servers=1)


def status_2(log):
    """The error of a rank that printed `log` and ended with status 2."""
    return 3.0, "SystemExit", "2", {"traceback": "", "status": 2, "log_bytes": len(log)}


def write(folder, errors=(), exits=(), logs=(), stacks=(), ended=(), tasks=(), end=(), job=(), **says):
    """Write what ranks and launcher have recorded of a failed run; return what its failure is to say, in part.

    By rank: errors are (time, type, message), exits (time, status); `ended` is when a script was through.
    """
    job = {"workers": 2, "timeout_s": 45, **dict(job)}
    folder.job(**job)
    for rank in range(job.get("ranks", job["workers"])):
        folder.rank(rank, **({"ended": ended[rank]} if rank in ended else {}))
    for rank, (time, type, message, *fields) in dict(errors).items():
        folder.error(rank, time, type, message, **(fields[0] if fields else {}))
    for rank, text in dict(logs).items():
        (folder.path / f"rank-{rank}.log").write_text(text)
    for rank, text in dict(stacks).items():
        (folder.path / f"stack-{rank}.txt").write_text(text)
    for rank, (time, code, *asked) in dict(exits).items():
        folder.launcher(time, "rank_exit", rank=rank, code=code, asked="".join(asked))
    for rank, fields in dict(tasks).items():
        folder.exit(rank, **fields)
    if not tasks:
        folder.launcher(20.0, "ended", state="failed", **dict(end))
    return says


CASES = {
    "the first error that is a rank's own": dict(
        sentence="rank 1 of 2 on node1 raised ValueError 6.4 s after it started",
        errors={0: (7.3, *LOST_TOUCH), 1: (7.4, "ValueError", "bad batch")},
        exits={0: (7.6, 1), 1: (7.7, 1)},
        traceback="ValueError: bad batch",
        others="rank 0 lost touch",
        advice="traceback",
    ),
    "killed": dict(
        sentence="rank 1 of 2 on node1 was killed by SIGKILL 4.1 s after it started",
        errors={0: (5.0, *LOST_TOUCH)},
        exits={1: (5.1, 137), 0: (5.2, 1)},
        advice="out of memory",
    ),
    "a kill that others noticed before its launcher did": dict(
        sentence="rank 1 of 2 on node1 was killed by SIGKILL",
        errors={0: (5.0, "ConnectionError", "the other end is gone")},
        exits={0: (5.1, 1), 1: (5.3, 137, "SIGTERM")},
    ),
    "a kill that the launcher sent": dict(
        sentence="rank 0 of 2",
        errors={0: (5.0, "ConnectionError", "the other end is gone")},
        exits={0: (5.1, 1), 1: (5.3, 137, "SIGKILL")},
    ),
    "an abort and its last words": dict(
        sentence="was killed by SIGABRT 3.0 s after it started: no peer",
        exits={0: (4.0, 134)},
        logs={0: "hello\nterminate called\n  what(): no peer\n\n"},
        output=("hello", "terminate called", "  what(): no peer"),
    ),
    "ranks that lost each other before training": dict(
        sentence="started: Connection closed by peer [127.0.0.1]:2",
        exits={1: (3.0, 134)},
        logs={1: PEER_CLOSED},
        advice="another program",
    ),
    "a silent status": dict(
        sentence="rank 1 of 2 on node1 exited with status 3",
        errors={0: (3.0, *LOST_TOUCH)},
        exits={1: (3.1, 3), 0: (3.2, 1)},
        status=3,
        others="rank 0 lost touch",
    ),
    "a status that the script chose": dict(
        sentence="rank 0 of 2 on node1 exited with status 2 2.0 s after it started",
        errors={0: status_2("on\nits way\n")},
        logs={0: "on\nits way\n"},
        status=2,
        output=("on", "its way"),
    ),
    "an option that argparse refuses": dict(
        sentence=f"rank 0 of 2 on node1 refused its options ({UNKNOWN}: did you mean '--epochs'?) 2.0 s after it started",
        errors={0: status_2(f"usage: x [--epochs N]\nx: error: {UNKNOWN}\n")},
        logs={0: f"usage: x [--epochs N]\nx: error: {UNKNOWN}\n"},
        output=(f"x: error: {UNKNOWN}",),
    ),
    "who left early, not who raised": dict(
        sentence="rank 1 of 2 on node1 ended with status 0 2.4 s after",
        errors={0: (3.0, *LOST_TOUCH)},
        exits={1: (3.4, 0), 0: (3.6, 1)},
        logs={1: "nothing more to do\n"},
        others="rank 0 lost touch",
        output=("nothing more to do",),
        status=1,
        advice="equally often",
    ),
    "who was missing at a time limit": dict(
        sentence="time limit of 20 s: the others were waiting for rank 1",
        end=dict(reason="timeout", timeout_s=20.0, missing=[1]),
        stacks={1: STACK},
        traceback='"/me/train.py", line 7',
    ),
    "who had left before a time limit": dict(
        sentence="waiting for rank 1; rank 1 had ended before, with status 0",
        exits={1: (3.0, 0)},
        end=dict(reason="timeout", missing=[1], timeout_s=20),
        advice="equally often",
    ),
    "a launch that never began": dict(
        sentence="before any rank ran: no Gloo", end=dict(reason="launch", message="no Gloo")
    ),
    "a full disk": dict(
        sentence=f"found its disk full 2.0 s after it started: {NO_ROOM}",
        errors={0: (3.0, "ResourceExhaustedError", NO_ROOM)},
        advice="DDL_RUNS_DIR",
    ),
    **{
        where: dict(
            sentence="found its shared memory full",
            errors={0: (3.0, "OSError", message, {"traceback": f"{where}\nOSError: {message}"})},
            advice="/dev/shm",
        )
        for where, message in {
            'File "/lib/multiprocessing/synchronize.py", line 57, in __init__': "[Errno 28] No space left on device",
            'File "train.py", line 5': "[Errno 28] No space left on device: '/dev/shm/batches'",
            'File "/lib/torch/storage.py"': "unable to write to file </torch_1_2>: No space left on device (28)",
        }.items()
    },
    "no more threads": dict(
        sentence="can't start new thread",
        end=dict(reason="launch", message="RuntimeError: can't start new thread", log="Traceback …"),
        advice="ulimit -u",
        traceback="",
    ),
    "a message of sys.exit": dict(
        sentence=": the data set is not here", errors={0: (3.0, "SystemExit", "the data set is not here\nmore")}
    ),
    **{
        message: dict(sentence="raised", errors={0: (3.0, "SomeError", message)}, advice=advice)
        for message, advice in {
            "'LOCAL_RANK'": "--cluster torchrun",
            "environment variable RANK expected, but not set": "--cluster torchrun",
            "No module named 'torch'": "make lab TORCH=1",
            "Extension horovod.torch has not been built: /x": "without PyTorch",
            "Torch not compiled with CUDA enabled": "gloo",
            "<urlopen error [Errno -2] Name or service not known>": "copy the file",
        }.items()
    },
    "Slurm's limit of memory": dict(
        sentence="job 17 on node01: OUT_OF_MEMORY", end=dict(slurm="OUT_OF_MEMORY", **SLURM)
    ),
    "tasks at their time limit": dict(
        sentence="45 s: the others were waiting for rank 1",
        tasks={0: dict(code=1, reason="timeout", waits=True), 1: dict(code=1, reason="timeout", waits=False)},
    ),
    "a task that was asked to end": dict(
        sentence="rank 1 of 2", tasks={0: dict(code=143, reason="SIGTERM"), 1: dict(code=137)}
    ),
    "a peer of tf.distribute that is gone": dict(
        sentence="rank 2 of 4 (worker 1) on node1 raised ValueError",
        job=CLUSTER,
        errors={0: (4.0, "UnavailableError", "Socket closed"), 2: (4.1, "ValueError", "bad batch")},
        others="rank 0 lost touch; ranks 1 and 3 were ended",
    ),
}


def test_checkpoint_that_a_full_disk_prevented_is_named_for_a_run_that_was_asked_to_end(folder):
    folder.launcher(0.5, "launched")
    folder.error(0, 3.0, "StorageError", f"checkpoint.npz cannot be written: {NO_ROOM}")
    folder.launcher(4.0, "ended", state="stopped", reason="SIGTERM")
    progress = folder.progress()
    assert progress.state == "stopped" and "found its disk full" in progress.failure.sentence


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_failure_names_its_cause(folder, case):
    says = write(folder, **case)
    failure = folder.progress(alive="tasks" not in case).failure
    for name, expected in says.items():
        value = getattr(failure, name)
        assert expected in value if isinstance(expected, str) else value == expected, name
    assert "start/worker.py" not in failure.traceback


@pytest.mark.parametrize(
    "state, events",
    [
        ("lost", [("launched", {})]),
        ("failed", [("launched", {}), ("ended", {"state": "failed", "reason": "launch", "message": "x"})]),
        (
            "failed",
            [("rank_exit", {"rank": 0, "code": 1}), ("ended", {"state": "failed"})],
        ),  # it could not open its log
    ],
)
def test_full_disk_is_reported_without_records(folder, monkeypatch, state, events):
    monkeypatch.setattr("ddl.follow.failure.is_full", lambda path: True)
    for time, (event, fields) in enumerate(events):
        folder.launcher(float(time), event, **fields)
    progress = folder.progress(alive=False)
    assert progress.state == state and f"{folder.path} is full" in progress.failure.sentence
    assert "df -i" in progress.failure.advice


# ---------------------------------------------------------------- notes on a run that goes on


def test_a_rank_that_others_wait_for_is_named_while_the_run_goes_on(folder):
    for rank in range(2):
        folder.rank(rank)
        write_json(folder.path / f"stalled-{rank}.json", {"rank": rank, "waits": rank == 0, "since": 0.0})
    (folder.path / "stack-1.txt").write_text(STACK)
    (note,) = folder.progress().notes
    assert ": rank 0 is waiting for rank 1\n" in note and '"/me/train.py", line 7' in note
    folder.launcher(70.0, "ended", state="stopped")
    assert not folder.progress().notes


# ---------------------------------------------------------------- several nodes, Slurm, clusters


def test_a_run_on_several_nodes_is_over_when_all_tasks_say_so(folder):
    folder.rank(0)
    folder.rank(1)
    folder.exit(0, 0)
    assert folder.progress().state == "running"
    folder.exit(1, 0)
    progress = folder.progress(now=99.0)
    assert (progress.state, progress.elapsed_s) == ("done", 9.0)
    folder.exit(1, 143, reason="SIGTERM")
    assert folder.progress().state == "stopped"
    folder.exit(1, 143, reason="launcher gone")
    assert folder.progress(alive=False).state == "stopped"


def test_queued_run_shows_reason_and_excludes_wait(folder):
    folder.job(site={"scheduler": "slurm"})
    folder.rank(0, started=3600.0)  # of an earlier start
    assert folder.progress().state == "starting"
    progress = progress_of(folder.path, now=10.0, waiting="Slurm job 17 waits: Priority")
    assert (progress.state, progress.waiting, progress.ranks) == ("queued", "Slurm job 17 waits: Priority", ())
    folder.event(3605.0, "start", step=0, steps=9)
    folder.event(3606.5, "step", step=1, samples=8, loss=2.0)
    assert folder.progress(now=3610.0).time_to_first_step_s == 6.5


def test_rank_that_ended_while_others_run_is_noted(folder):
    folder.job()
    folder.launcher(0.5, "launched")
    for rank in (0, 1):
        folder.rank(rank)
    folder.launcher(3.0, "rank_exit", rank=1, code=0)
    for now, noted in ((4.0, False), (30.0, True)):
        notes = folder.progress(now).notes
        assert any("rank 1 has ended" in note for note in notes) == noted
