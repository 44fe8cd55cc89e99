import pytest

from ddl.display.summary import summary
from ddl.launcher.progress import progress_of
from ddl.records.jsonfiles import append_json_line, write_json


class Folder:
    """A run folder written by hand; times are seconds after the launch."""

    def __init__(self, path, workers=2):
        self.path = path
        write_json(
            path / "job.json",
            {"id": "r1", "name": "arm", "created": 0.0, "workers": workers, "shell_line": "cd / && x"},
        )

    def launcher(self, time, event, **fields):
        append_json_line(self.path / "launcher.jsonl", {"event": event, "time": time, **fields})

    def event(self, time, event, **fields):
        append_json_line(self.path / "events.jsonl", {"event": event, "time": time, **fields})

    def rank(self, rank, started=1.0):
        write_json(
            self.path / f"rank-{rank}.json", {"rank": rank, "host": "node1", "pid": 10 + rank, "started": started}
        )

    def error(self, time, rank, type, message=""):
        write_json(
            self.path / f"error-{rank}.json",
            {
                "rank": rank,
                "host": "node1",
                "type": type,
                "message": message,
                "traceback": f"Traceback\n{type}: {message}",
                "time": time,
            },
        )

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
    assert folder.progress().state == "running"
    folder.event(3.0, "start", steps=20, epochs=2)
    assert folder.progress().state == "running"
    folder.event(4.0, "step", step=1, epoch=0.1, samples=64, loss=2.3)
    assert folder.progress().state == "training"
    folder.launcher(9.0, "ended", state="done")
    progress = folder.progress(now=100.0)
    assert (progress.state, progress.elapsed_s, progress.over) == ("done", 9.0, True)


@pytest.mark.parametrize("state", ["x", None, 3, ["done"]])
def test_a_word_that_is_no_end_ends_no_run(folder, state):
    folder.launcher(0.1, "launched", pid=7)
    folder.launcher(9.0, "ended", state=state)
    assert summary(folder.progress(alive=False)).startswith("? ")


def test_training_is_folded_into_numbers(folder):
    folder.launcher(0.5, "launched", pid=1)
    folder.event(3.0, "start", steps=21, epochs=2.0, data={"name": "synthetic"})
    folder.event(3.1, "note", message="CIFAR-10 is not here")
    folder.event(4.0, "step", step=1, epoch=0.1, samples=64, loss=2.3, images_per_s=None)
    folder.event(8.0, "step", step=11, epoch=1.1, samples=704, loss=1.5, images_per_s=160.0)
    folder.event(
        9.0,
        "evaluation",
        step=11,
        epoch=1.1,
        samples=704,
        loss=1.6,
        accuracy=0.4,
        test_loss=1.7,
        test_accuracy=0.35,
        learning_rate=0.1,
    )
    progress = folder.progress(now=10.0)
    assert progress.time_to_first_step_s == 4.0
    assert (progress.step, progress.steps, progress.epochs) == (11, 21, 2.0)
    assert progress.images_per_s == 160.0 and progress.test_accuracy == 0.35
    assert progress.losses == ((64, 2.3), (704, 1.5)) and len(progress.history) == 1
    assert progress.remaining_s == pytest.approx(10 * 0.4 - 2.0)
    assert progress.notes == ("CIFAR-10 is not here",)
    assert progress.data == {"name": "synthetic"}


LOST_TOUCH = "HorovodInternalError", "Horovod has been shut down. Details ..."
PEER_CLOSED = (
    "terminate called after throwing an instance of 'gloo::IoException'\n"
    "  what():  [/a/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:2\n"
)
NO_ROOM = "[Errno 28] No space left on device: '/runs/x'"
SLURM = dict(job="17", nodes="node01")


class Case:
    """What ranks and launcher have recorded of a failed run, and what its failure says, in part.

    Errors are (time, type, message), exits (time, status), by rank.
    """

    def __init__(self, sentence, errors=(), exits=(), logs=(), end=(), training=(), tasks=(), **says):
        self.says = {"sentence": sentence, **says}
        self.errors, self.exits, self.logs, self.tasks = dict(errors), dict(exits), dict(logs), dict(tasks)
        self.end, self.training = dict(end), training


CASES = {
    "the first error that is a rank's own": Case(
        "rank 1 of 2 on node1 raised ValueError 3.4 s into epoch 2",
        errors={0: (7.3, *LOST_TOUCH), 1: (7.4, "ValueError", "bad batch")},
        exits={0: (7.6, 1), 1: (7.7, 1)},
        training=[(3.0, "start", {"steps": 20}), (4.0, "evaluation", {"step": 10, "epoch": 1.0})],
        traceback="ValueError: bad batch",
        others="rank 0 lost touch",
        advice="Fix what",
    ),
    "memory": Case("raised MemoryError", errors={1: (2.0, "MemoryError", "")}, advice="smaller batch"),
    "a file": Case("FileNotFoundError", errors={1: (2.0, "FileNotFoundError", "x.csv")}, advice="relative path"),
    "Horovod's word alone": Case("raised", errors={1: (2.0, *LOST_TOUCH)}, advice="other logs"),
    "killed": Case(
        "rank 1 of 2 on node1 was killed by SIGKILL 4.1 s after it started",
        errors={0: (5.0, *LOST_TOUCH)},
        exits={1: (5.1, 137), 0: (5.2, 1)},
        advice="out of memory",
    ),
    "crashed": Case("was killed by SIGSEGV", exits={1: (5.1, 139)}, advice="log"),
    "a kill that others noticed before its launcher did": Case(
        "rank 1 of 2 on node1 was killed by SIGKILL",
        errors={0: (5.0, "ConnectionError", "the other end is gone")},
        exits={0: (5.1, 1), 1: (5.3, 137, "SIGTERM")},
    ),
    "a kill that the launcher sent": Case(
        "rank 0 of 2",
        errors={0: (5.0, "ConnectionError", "the other end is gone")},
        exits={0: (5.1, 1), 1: (5.3, 137, "SIGKILL")},
    ),
    "an abort and its last words": Case(
        "was killed by SIGABRT 3.0 s after it started: no peer",
        exits={0: (4.0, 134)},
        logs={0: "hello\nterminate called\n  what(): no peer\n\n"},
        output=("hello", "terminate called", "  what(): no peer"),
    ),
    "ranks that lost each other before training": Case(
        "started: Connection closed by peer [127.0.0.1]:2",
        exits={1: (3.0, 134)},
        logs={1: PEER_CLOSED},
        advice="another program",
    ),
    "ranks that lost each other while training": Case(
        "was killed by SIGABRT",
        exits={1: (3.0, 134)},
        logs={1: PEER_CLOSED},
        training=[(2.5, "start", {"step": 0, "steps": 40, "epochs": 4.0})],
        advice="A library gave up",
    ),
    "a silent status": Case(
        "rank 1 of 2 on node1 exited with status 3",
        errors={0: (3.0, *LOST_TOUCH)},
        exits={1: (3.1, 3), 0: (3.2, 1)},
        status=3,
        others="rank 0 lost touch",
    ),
    "who left early, not who raised": Case(
        "rank 1 of 2 on node1 ended with status 0 2.4 s after",
        errors={0: (3.0, *LOST_TOUCH)},
        exits={1: (3.4, 0), 0: (3.6, 1)},
        logs={1: "nothing more to do\n"},
        others="rank 0 lost touch",
        output=("nothing more to do",),
        status=1,
        advice="equally often",
    ),
    "who left early, not who aborted": Case(
        "rank 1 of 2 on node1 ended with status 0",
        exits={1: (3.4, 0), 0: (3.6, 134)},
        logs={0: "  what(): Connection closed by peer\n"},
        status=134,
    ),
    "who had left before a time limit": Case(
        "waiting for rank 1; rank 1 had ended before, with status 0",
        exits={1: (3.0, 0)},
        end=dict(reason="timeout", missing=[1], timeout_s=20),
        advice="equally often",
    ),
    "a launch that never began": Case("before any rank ran: no Gloo", end=dict(reason="launch", message="no Gloo")),
    "a full disk": Case(
        f"found its disk full 2.0 s after it started: {NO_ROOM}",
        errors={0: (3.0, "ResourceExhaustedError", NO_ROOM)},
        advice="DDL_RUNS_DIR",
    ),
    "Slurm's limit of memory": Case("needed more memory", end=dict(slurm="OUT_OF_MEMORY", **SLURM)),
    "Slurm's time limit": Case("Slurm ended job 17 on node01: it reached", end=dict(slurm="TIMEOUT", **SLURM)),
    "tasks at their time limit": Case(
        "45 s: the others were waiting for rank 1",
        tasks={0: dict(code=1, reason="timeout", waits=True), 1: dict(code=1, reason="timeout", waits=False)},
    ),
    "a task that was asked to end": Case("rank 1 of 2", tasks={0: dict(code=143, reason="SIGTERM"), 1: dict(code=137)}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_cause_of_a_failure(folder, case):
    job = {"id": "r1", "created": 0.0, "workers": 2, "timeout_s": 45}
    write_json(folder.path / "job.json", job)
    for rank in range(2):
        folder.rank(rank)
    for time, event, fields in case.training:
        folder.event(time, event, **fields)
    for rank, error in case.errors.items():
        folder.error(error[0], rank, *error[1:])
    for rank, text in case.logs.items():
        (folder.path / f"rank-{rank}.log").write_text(text)
    for rank, (time, code, *asked) in case.exits.items():
        folder.launcher(time, "rank_exit", rank=rank, code=code, asked="".join(asked))
    for rank, fields in case.tasks.items():
        write_json(folder.path / f"exit-{rank}.json", {"rank": rank, "host": "n", "time": 8.0 + rank, **fields})
    if not case.tasks:
        folder.launcher(20.0, "ended", state="failed", **case.end)
    failure = folder.progress().failure
    for name, expected in case.says.items():
        value = getattr(failure, name)
        assert expected in value if isinstance(expected, str) else value == expected, name


def test_what_became_of_many_ranks_is_grouped(folder):
    write_json(folder.path / "job.json", {"id": "r1", "created": 0.0, "workers": 6})
    for rank in range(6):
        folder.rank(rank)
    folder.error(3.0, 0, "ValueError", "bad")
    for rank in (1, 2, 3):
        folder.error(3.5, rank, *LOST_TOUCH)
    folder.launcher(3.6, "rank_exit", rank=4, code=143)
    folder.launcher(4.0, "ended", state="failed")
    assert folder.progress().failure.others == "ranks 1, 2 and 3 lost touch; ranks 4 and 5 were ended"


def test_a_rank_whose_script_had_ended_was_not_the_one_that_was_ended(folder):
    folder.rank(0)
    write_json(folder.path / "rank-1.json", {"rank": 1, "host": "node1", "pid": 11, "started": 1.0, "ended": 2.9})
    folder.error(3.0, 0, *LOST_TOUCH)
    folder.launcher(4.0, "rank_exit", rank=1, code=143)
    folder.launcher(4.1, "rank_exit", rank=0, code=1)
    folder.launcher(4.2, "ended", state="failed")
    assert "rank 1 of 2 on node1 ended with status 0 1.9 s" in folder.progress().failure.sentence


def test_an_error_is_shown_while_the_other_ranks_still_run(folder):
    folder.launcher(0.5, "launched", pid=1)
    folder.rank(1)
    folder.error(2.0, 1, "ValueError", "early")
    progress = folder.progress()
    assert not progress.over
    assert progress.failure.sentence == ("rank 1 of 2 on node1 raised ValueError 1.0 s after it started")


def clustered(folder):
    write_json(
        folder.path / "job.json",
        {
            "id": "r1",
            "name": "arm",
            "created": 0.0,
            "workers": 2,
            "processes": 4,
            "cluster": "parameter_server",
            "parameter_servers": 1,
        },
    )


COLLECTIVE = "Collective ops is aborted by: bad batch\nThe error could be from a previous operation. Restart ..."


@pytest.mark.parametrize(
    "type, message", [("UnavailableError", "Graph execution error: Socket closed"), ("InternalError", COLLECTIVE)]
)
def test_what_tf_distribute_says_of_a_lost_peer_is_not_the_cause(folder, type, message):
    clustered(folder)
    folder.rank(0)
    folder.rank(2)
    folder.error(4.0, 0, type, message)
    folder.error(4.1, 2, "ValueError", "bad batch")
    folder.launcher(4.2, "rank_exit", rank=0, code=1)
    folder.launcher(4.9, "ended", state="failed")
    failure = folder.progress().failure
    assert failure.sentence.startswith("rank 2 of 4 (worker 1) on node1 raised ValueError")
    assert failure.others == "rank 0 lost touch; ranks 1 and 3 were ended"


@pytest.mark.parametrize("gone, sentence", [([], "(worker 1) never"), ([2], "(worker 1) ended and never")])
def test_who_never_joined_a_cluster_is_named_by_the_launcher_or_a_task(folder, gone, sentence):
    clustered(folder)
    folder.rank(2)
    folder.launcher(9.0, "ended", state="failed", reason="absent", missing=[2], gone=gone)
    failure = folder.progress().failure
    assert failure.sentence == f"rank 2 of 4 {sentence} joined the cluster, which others were waiting for"
    (folder.path / "launcher.jsonl").unlink()
    record = {"rank": 0, "code": 143, "time": 9.0, "host": "n", "reason": "absent", "missing": [1, 3], "gone": gone}
    write_json(folder.path / "exit-0.json", record)
    failure = folder.progress(alive=False).failure
    assert failure.sentence.startswith("rank 1 of 4 (worker 0) and rank 3 of 4 (ps 0) never joined")


def test_a_rank_of_a_cluster_is_named_with_its_task(folder):
    clustered(folder)
    folder.rank(2)
    assert folder.progress().ranks[0].role == "worker 1"
    assert "1 of 4 ranks (worker 1) on node1" in summary(folder.progress())
    folder.launcher(5.1, "rank_exit", rank=2, code=137)
    folder.launcher(6.0, "ended", state="failed")
    assert folder.progress().failure.sentence == (
        "rank 2 of 4 (worker 1) on node1 was killed by SIGKILL 4.1 s after it started"
    )


def test_a_time_limit_names_who_was_missing(folder):
    (folder.path / "stack-1.txt").write_text(
        "Current thread 0x1 (most recent call first):\n"
        '  File "/me/train.py", line 7 in <module>\n'
        '  File "/course/ddl/rank/worker.py", line 80 in _become\n'
    )
    folder.launcher(20.0, "ended", state="failed", reason="timeout", timeout_s=20.0, missing=[1])
    failure = folder.progress().failure
    assert "time limit of 20 s: the others were waiting for rank 1" in failure.sentence
    assert '"/me/train.py", line 7' in failure.traceback and "rank/worker.py" not in failure.traceback


def test_a_rank_that_others_wait_for_is_named_while_the_run_goes_on(folder):
    for rank in range(2):
        folder.rank(rank)
        write_json(folder.path / f"stalled-{rank}.json", {"rank": rank, "waits": rank == 0, "quiet_s": 60.0})
    (folder.path / "stack-1.txt").write_text(
        'Current thread 0x1:\n  File "/me/train.py", line 7 in <module>\n  File "/course/ddl/rank/worker.py", line 80\n'
    )
    (note,) = folder.progress().notes
    assert note.startswith("nothing new for 60 s: rank 0 is waiting for rank 1\nrank 1 was here")
    assert '"/me/train.py", line 7' in note
    folder.launcher(70.0, "ended", state="stopped")
    assert not folder.progress().notes


def test_a_run_without_processes_and_without_an_end_is_lost(folder):
    folder.launcher(0.5, "launched", pid=1)
    folder.event(4.0, "step", step=1)
    progress = folder.progress(now=1000.0, alive=False)
    assert (progress.state, progress.elapsed_s) == ("lost", 4.0)
    assert progress.failure


def test_a_stopped_run_has_no_failure(folder):
    folder.launcher(5.0, "rank_exit", rank=1, code=143)
    folder.launcher(5.3, "ended", state="stopped", reason="SIGTERM")
    assert folder.progress().failure is None


# ---------------------------------------------------------------- several nodes, Slurm, requeue


def exits(folder, *codes, **fields):
    for rank, code in enumerate(codes):
        write_json(
            folder.path / f"exit-{rank}.json",
            {
                "rank": rank,
                "host": f"node{rank}",
                "code": code,
                "time": 8.0 + rank,
                **{name: values[rank] for name, values in fields.items() if values[rank] is not None},
            },
        )


def test_a_run_on_several_nodes_is_over_when_all_tasks_say_so(folder):
    folder.rank(0)
    folder.rank(1)
    exits(folder, 0)
    assert folder.progress().state == "running"
    exits(folder, 0, 0)
    progress = folder.progress(now=99.0)
    assert (progress.state, progress.elapsed_s) == ("done", 9.0)


def test_tasks_whose_launcher_is_gone_were_stopped(folder):
    exits(folder, 143, reason=["launcher gone"])
    assert folder.progress(alive=False).state == "stopped"
    exits(folder, 143, 143, reason=["SIGTERM", "SIGTERM"])
    assert folder.progress().state == "stopped"


def test_a_queued_run_says_what_it_waits_for(folder):
    folder.rank(0)  # of an earlier start
    progress = folder.progress()
    assert progress.state == "starting"
    progress = progress_of(folder.path, now=10.0, waiting="Slurm job 17 waits: Priority")
    assert (progress.state, progress.waiting) == ("queued", "Slurm job 17 waits: Priority")
    assert progress.ranks == ()


def test_who_cancelled_a_run_is_told(folder):
    folder.launcher(0.5, "launched", pid=1)
    folder.launcher(9.5, "ended", state="stopped", job="17", slurm="CANCELLED", by="ada")
    assert summary(folder.progress()).startswith("■ arm stopped by ada, 0:09")


def test_time_in_a_queue_is_no_time_to_the_first_step(folder):
    write_json(folder.path / "job.json", {"id": "r1", "created": 0.0, "workers": 1, "site": {"scheduler": "slurm"}})
    folder.rank(0, started=3600.0)
    folder.event(3605.0, "start", step=0, steps=9)
    folder.event(3606.5, "step", step=1, samples=8, loss=2.0)
    assert folder.progress(now=3610.0).time_to_first_step_s == 6.5


def test_a_run_that_starts_again_goes_on(folder):
    folder.launcher(0.5, "launched", pid=1)
    folder.launcher(5.0, "ended", state="stopped", reason="SIGTERM")
    assert folder.progress().state == "stopped"
    folder.launcher(7.0, "launched", pid=2)
    assert folder.progress().state == "starting"


def test_a_run_that_made_way_is_not_done(folder):
    folder.launcher(0.5, "launched", pid=1)
    folder.launcher(5.0, "ended", state="done")
    (folder.path / "requeue").write_text("{}")
    assert folder.progress().state == "stopped"


def test_what_a_resumed_training_did_over_again_counts_once(folder):
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
    assert progress.step == 11 and progress.history == ()
    assert progress.notes == ("generated pictures",)
    assert progress.test_accuracy is None


# ---------------------------------------------------------------- statuses, and who left first


@pytest.mark.parametrize(
    ("said", "did", "output"),
    [
        ("on\nits way\n", "exited with status 2", ("on", "its way")),
        ("usage: x\nx: error: no\n", "refused its options (no)", ("x: error: no",)),  # as argparse ends it
        (
            "usage: x [--epochs N]\nx: error: unrecognized arguments: --epochz 1\n",
            "refused its options (unrecognized arguments: --epochz 1: did you mean '--epochs'?)",
            ("x: error: unrecognized arguments: --epochz 1",),
        ),
    ],
)
def test_a_status_is_told_with_the_last_lines_that_the_rank_wrote(folder, said, did, output):
    folder.rank(0)
    (folder.path / "rank-0.log").write_text(said)
    write_json(
        folder.path / "error-0.json",
        {
            "rank": 0,
            "host": "node1",
            "type": "SystemExit",
            "message": "2",
            "traceback": "",
            "time": 3.0,
            "status": 2,
            "log_bytes": len(said),
        },
    )
    folder.launcher(3.1, "rank_exit", rank=0, code=2)
    folder.launcher(4.0, "ended", state="failed")
    failure = folder.progress().failure
    assert failure.sentence == f"rank 0 of 2 on node1 {did} 2.0 s after it started"
    assert (failure.status, failure.output) == (2, output)


def test_a_rank_that_has_left_is_told_while_others_go_on(folder):
    folder.rank(0)
    folder.rank(1)
    folder.launcher(3.0, "rank_exit", rank=1, code=0)
    assert folder.progress(now=4.0).notes == ()
    assert folder.progress(now=9.0).notes == ("rank 1 has ended with status 0, and others are still running",)
    folder.launcher(9.5, "rank_exit", rank=0, code=0)
    folder.launcher(9.6, "ended", state="done")
    assert folder.progress(now=20.0).notes == ()


@pytest.mark.parametrize(
    "state, end, says",
    [
        ("lost", None, "none of them recorded why; the disk that holds"),
        ("failed", {"reason": "storage"}, "is full, and what else happened could not be recorded"),
        ("failed", {"reason": "launch", "message": "x"}, "is full, and what else happened"),
    ],
)
def test_a_run_that_could_write_nothing_down_says_that_its_disk_is_full(folder, monkeypatch, state, end, says):
    monkeypatch.setattr("ddl.launcher.failure.is_full", lambda path: True)
    folder.launcher(0.5, "launched", pid=1)
    if end:
        folder.launcher(4.0, "ended", state="failed", **end)
    progress = folder.progress(alive=False)
    assert progress.state == state and says in progress.failure.sentence
    assert str(folder.path) in progress.failure.sentence


def test_output_that_found_no_room_is_said_to_be_lost(folder, monkeypatch):
    (folder.path / "lost-1").touch()
    assert [note.split(":")[0] for note in folder.progress(alive=False).notes] == ["some of rank 1's output is lost"]
    monkeypatch.setattr("ddl.launcher.progress.is_full", lambda path: True)
    assert "what the ranks print now may be lost" in folder.progress().notes[-1]
