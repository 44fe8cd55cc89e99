"""A class's submissions: what is handed in, run again, and marked; nothing that is handed in is believed."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from unittest import mock

import psutil
import pytest

from course.challenge.journal import journals
from ddl.errors import CourseError
from ddl.launcher import warm
from helpers import ROOT, archive
from marking import challenge, grades, sandbox
from marking.course import CHALLENGE, Course
from marking.students import Student, enrol
from stage import Stage, StandInFailure
from submissions import TINY

STUDENTS = ("ann", "bob", "cyd", "dan", "eve", "fay", "gus")
FILE = "SAMPLES = 180_224\n"
FORGED = {
    "records/journal.json": json.dumps(
        {"looks": [[{"role": "submission", "pair": 0, "seed": 7, "secret": 8, "accuracy": 0.99}] * 5]}
    ),
    "records/about.json": json.dumps({"score": "counts: mean 99.00% of 5 runs"}),
    "records/run-0/result.json": json.dumps({"samples": 1024, "public_accuracy": 0.99}),
    "records/run-0/judged.json": json.dumps({"accuracy": 0.99, "samples": 1024, "seconds": 0.1}),
    "board.json": json.dumps([{"name": "bob", "counts": True}]),
    "challenge/students/ann/submission/mine.py": "",
}


@pytest.fixture
def stage(monkeypatch):
    """A stage for runs, and no sandbox: nothing is run in it."""
    found = Stage().set(monkeypatch)
    monkeypatch.setattr(sandbox, "find", lambda: sandbox.bubblewrap)
    monkeypatch.setattr(challenge, "labels_of", lambda name, samples=None: found.labels)
    monkeypatch.setattr(challenge, "POLL_S", 0)
    return found


@pytest.fixture
def course(tmp_path, empty_gradebook, monkeypatch):
    """A course folder with students in the gradebook."""
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path / "elsewhere"))  # and back after the test
    folder = tmp_path / "course"
    folder.mkdir()
    (folder / "gradebook.db").write_bytes(empty_gradebook.read_bytes())
    course = Course(folder)
    enrol(course, [Student(name, name.title(), "Ames") for name in STUDENTS])
    return course


@pytest.fixture
def take_in(course, hand_in):
    """Return a function that hands in {path: content} and takes it in."""

    def take(files):
        for name, content in files.items():
            hand_in(name, content if isinstance(content, bytes) else content.encode())
        return challenge.collect(course, hand_in.folder)

    return take


@pytest.fixture
def scored(course):
    """Return a function that scores what was taken in, and gives the marks by student."""

    def score(**options):
        challenge.score(course, lanes=2, say=lambda line: None, **options)
        return {row.student.id: row.auto for row in challenge.rows(course)}

    return score


def journal_of(course, student):
    (found,) = journals(course.folder / "challenge" / "students" / student)
    return found


def test_marks_go_by_what_counts_built_in_the_sandbox_and_run_in_lanes(course, take_in, stage, scored):
    copy = archive({"mine.py": "# other\n"})
    found, strays = take_in({"ann.py": FILE, "bob/mine.py": "# other\n", "bob/copy.zip": copy, "zoe.py": FILE})
    assert found == ["ann", "bob"] and [stray.name for stray in strays] == ["zoe.py"]
    stage.plan = dict.fromkeys(range(5, 10), 0.6)
    stage.looks = 2
    assert scored() == {"ann": 4.0, "bob": 0.0}
    assert len(stage.launches) == 10 and {options["role"] for options in stage.launches} == {"submission"}
    assert [built["start"] for built in stage.builds] == [sandbox.start_builder] * 2 and stage.most == 2
    # Marks are an assignment of their own, and in the table of grades.
    (path, *_), _ = grades.grades(course, [CHALLENGE])
    with open(path) as file:
        ann, _, cyd, *_ = csv.DictReader(file)
    assert (ann["lesson"], ann["auto"], ann["max"], cyd["total"]) == ("5.Challenge-score", "4.0", "10.0", "")
    with course.gradebook() as gradebook:
        assert [assignment.name for assignment in gradebook.assignments] == [CHALLENGE]


def test_no_number_that_is_handed_in_is_believed(course, take_in, stage, scored):
    stage.accuracy = 0.6
    folder = {f"cyd/{name}": text for name, text in FORGED.items() if not name.endswith("mine.py")}
    archived = {"mine.py": FILE, **FORGED, "challenge/students/ann/submission/mine.py": FILE}
    take_in({"ann.py": FILE, "bob.zip": archive(archived), "cyd/mine.py": FILE, **folder})
    assert scored() == {"ann": 0.0, "bob": 0.0, "cyd": 0.0}
    seeds = {(options["seed"], options["secret"]) for options in stage.launches}
    assert len(stage.launches) == len(seeds) == 15 and not {seed for seed, _ in seeds} & {7}
    assert journal_of(course, "bob").score().accuracies == (0.6,) * 5


def test_a_hand_in_does_not_write_into_anothers_folder(course, take_in, stage, scored):
    before = set(course.folder.parent.rglob("*"))
    outside = dict.fromkeys(("../students/ann/submission/mine.py", "/tmp/ddl-outside.py"), "# bob's\n")
    take_in({"ann.py": FILE, "bob.zip": archive(outside)})
    assert scored() == {"ann": 4.0, "bob": None}
    reasons = course.notes(CHALLENGE, "bob").collected
    assert any("leads out of its archive" in reason for reason in reasons) and "no Python file" in reasons[-1]
    assert journal_of(course, "ann").name == "ann.py" and not os.path.exists("/tmp/ddl-outside.py")
    new = set(course.folder.parent.rglob("*")) - before
    assert all(path.is_relative_to(course.folder) or "handed in" in str(path) for path in new)


WRONG_FILES = {
    "bob": ({"bob/a.py": "A = 1\n", "bob/b.py": "B = 1\n"}, "2 Python files where one is a submission"),
    "cyd": ({"cyd.zip": archive({"a.py": "A = 1\n", "b.py": "B = 1\n"})}, "2 Python files where one is a submission"),
    "dan": ({"dan/notes.txt": "see mail"}, "no Python file in what was handed in"),
    "eve": ({"eve.zip": b"PK not a zip"}, "not a zip archive"),
    "fay": ({"fay/mine.py": b"#" * (21 * 2**20)}, "21 MiB"),
    "gus": ({}, "symbolic link"),
}


def test_what_is_no_submission_has_no_mark_and_says_why(course, take_in, hand_in, stage, scored, tmp_path):
    (tmp_path / "secret.py").write_text(FILE)
    (hand_in.folder / "gus").mkdir()
    (hand_in.folder / "gus" / "mine.py").symlink_to(tmp_path / "secret.py")
    take_in({"ann.py": FILE} | {name: content for files, _ in WRONG_FILES.values() for name, content in files.items()})
    assert scored() == {"ann": 4.0, **dict.fromkeys(WRONG_FILES)}
    for student, (_, reason) in WRONG_FILES.items():
        assert any(reason in note for note in course.notes(CHALLENGE, student).collected)


def test_a_refused_file_has_no_points_and_its_sentence_is_noted(course, take_in, stage, scored):
    take_in({"ann.py": FILE, "bob.py": "REFUSE = 1\n"})
    assert scored() == {"ann": 4.0, "bob": 0.0}
    (reason,) = course.notes(CHALLENGE, "bob").marked
    assert reason == "counts as chance: bob.py: refused, as the test wants it"
    assert scored() == {"ann": 4.0, "bob": 0.0} and len(stage.builds) == 2  # neither is built again


def test_without_a_sandbox_nothing_is_built_or_run(take_in, stage, scored, monkeypatch):
    take_in({"ann.py": FILE})
    monkeypatch.setattr(sandbox, "find", mock.Mock(side_effect=sandbox.SandboxMissing("none")))
    with pytest.raises(sandbox.SandboxMissing):
        scored()
    assert not stage.builds and not stage.launches


def test_an_interrupted_command_goes_on_with_the_same_seeds_and_tries_no_crash_again(course, take_in, stage, scored):
    take_in({"ann.py": FILE, "bob.py": "# other\n"})
    stage.plan = {0: ("failed", StandInFailure("RuntimeError: unlucky")), 4: ("interrupted", None)}
    with pytest.raises(KeyboardInterrupt):
        scored()
    seeds = {name: [entry.seed for entry in journal_of(course, name).entries] for name in ("ann", "bob")}
    done = {run.launched["seed"] for run in stage.runs.values() if run.state == "done" and run.over}
    launched = len(stage.launches)
    crashed = {stage.launches[0]["seed"]}
    assert scored() == {"ann": 0.0, "bob": 4.0}
    assert seeds == {name: [entry.seed for entry in journal_of(course, name).entries] for name in ("ann", "bob")}
    again = {options["seed"] for options in stage.launches[launched:]}
    assert not again & (done | crashed) and again | done | crashed == {*seeds["ann"], *seeds["bob"]}
    assert "unlucky" in course.notes(CHALLENGE, "ann").marked[0]


def test_a_new_hand_in_is_scored_anew_and_the_rest_stays(course, take_in, stage, scored):
    take_in({"ann.py": FILE, "bob.py": "# other\n"})
    scored()
    stage.samples = 67_584
    take_in({"ann.py": FILE + "# better\n"})
    assert course.notes(CHALLENGE, "ann").marked == ("handed in anew, and not scored since",)
    assert scored() == {"ann": 10.0, "bob": 4.0}
    assert len(stage.launches) == 15 and course.notes(CHALLENGE, "ann").marked == ()
    known = {student: journals(course.folder / "challenge" / "students" / student) for student in ("ann", "bob")}
    assert [each.number for each in known["ann"]] == [1, 2]  # looks are a student's, not a file's
    assert [each.number for each in known["bob"]] == [1]
    stage.samples = 20_480
    take_in({"ann.py": FILE + "# best\n"})
    assert scored() == {"ann": 10.0, "bob": 4.0}
    (reason,) = course.notes(CHALLENGE, "ann").marked
    assert reason == "it reached the target with 11% of the baseline's samples"


def test_the_same_bytes_under_another_name_are_not_run_again(take_in, hand_in, stage, scored):
    take_in({"bob/mine.py": FILE})
    stage.plan[3] = ("interrupted", None)
    with pytest.raises(KeyboardInterrupt):
        scored()
    (hand_in.folder / "bob" / "mine.py").unlink()
    take_in({"bob/yours.py": FILE})
    assert scored() == {"bob": 4.0} == scored()
    assert len({options["seed"] for options in stage.launches}) == 5


def test_a_trial_gives_no_points_and_fewer_runs_are_refused(take_in, stage, scored):
    take_in({"ann.py": FILE})
    assert scored(trial={"samples": 1024}) == {"ann": 0.0}
    with pytest.raises(CourseError, match="at least 5 runs"):
        scored(runs=3)


def test_the_board_and_the_verdicts_to_hand_back(course, take_in, stage):
    take_in({"Ames Ann_123_assignsubmission_file_/mine.py": FILE, "bob.py": "REFUSE = 1\n"})
    scores = challenge.score(course, say=lambda line: None)
    board, figure, pages = challenge.board(course, scores)
    own = board[board["kind"] == "own"]
    assert list(own["name"]) == ["ann", "bob"] and list(own["counts"]) == ["yes", "no"]
    assert figure.read_text().startswith("<?xml")
    with zipfile.ZipFile(pages) as archive:
        said = {name: archive.read(name).decode() for name in archive.namelist()}
    ann = said["Ames Ann_123_assignsubmission_file_/5.Challenge-score.txt"]
    assert ann.startswith("mine.py: counts: mean 75.00%") and ann.endswith("4 of 10 points\n")
    assert "refused, as the test wants it" in said["bob/5.Challenge-score.txt"]


SMOOTH = """
def loss(logits, labels):
    return tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(labels, 10) * 0.9 + 0.01, logits)
"""
PREPARED = """
def prepare(model, pictures):
    model.layers[-1].bias.assign(0 * tf.reduce_mean(pictures, [0, 1, 2, 3]) + tf.zeros([10]))
"""
NOSY = "exec(open('{ann}').read())\n"
BOASTFUL = """
import os, sys, time
time.time = time.monotonic = time.perf_counter = lambda: 0.0
print('{"files": {}, "settings": {"samples": 1024}, "accuracy": 0.99}')
print("boastful.py: counts: mean 99.00% of 5 runs", file=sys.stderr)
"""
VIEWS = """
class Views(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = tiny()

    def call(self, x, training=False):
        return self.inner(x) if training else self.inner(x) + self.inner(x[:, :, ::-1])

def model():
    return Views()
"""
NO_NUMBER = """
def loss(logits, labels):
    return tf.reduce_sum(logits, 1) * float("nan")
"""
CLASS = {  # five honest ones, and five cheats
    "ann/mine.py": TINY,
    "bob/mine.py": TINY + "PEAK = 0.8\n",
    "cyd/mine.py": TINY + SMOOTH,
    "dan/mine.py": TINY + PREPARED,
    "eve.zip": {"mine.py": TINY + "SAMPLES = 2048\n", "records/about.json": "{}"},
    "fay/nosy.py": TINY + NOSY,
    "gus/boastful.py": TINY + BOASTFUL,
    "hal/views.py": TINY + VIEWS,
    "ida/no_number.py": TINY + NO_NUMBER,
    "jon.zip": FORGED | {"challenge/students/ann/submission/mine.py": "import os\nos._exit(0)\n"},
}
WRONG = {
    "fay": r"nosy.py, line \d+: FileNotFoundError",
    "hal": "several views of an image do not count",
    "ida": "it diverged: its loss was no longer a finite number",
    "jon": "mine.py: the process that builds it gave no answer: it ended with status 0",
}


@pytest.mark.slow
def test_one_command_scores_a_class_with_five_cheats_in_the_sandbox(course_folder, tmp_path, tiny, monkeypatch):
    """It is interrupted in its middle, and started once more."""
    monkeypatch.setenv("DDL_DATA_DIR", str(tmp_path / "no CIFAR here"))
    monkeypatch.delenv("DDL_WARM")  # as instructors have it
    people, handed_in = tmp_path / "students.csv", tmp_path / "hand-ins of May"
    names = sorted(name[:3] for name in CLASS)
    people.write_text("\n".join(["id,first_name", *(f"{name},{name.title()}" for name in names)]))
    for name, content in CLASS.items():
        path = handed_in / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            path.write_bytes(archive(content))
        else:
            path.write_text(content.replace("{ann}", str(handed_in / "ann" / "mine.py")))
    course = course_folder(tmp_path / "course", tiny)
    options = ["--students", people, "--from", handed_in, "--trial", 1024, "--runs", 1]

    command = [sys.executable, "-m", "marking", "--course", course.folder, "challenge", *options]
    environment = course.env() | {"PYTHONUNBUFFERED": "1"}
    first = subprocess.Popen(list(map(str, command)), env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    said = []
    for line in first.stdout:
        said.append(line)
        if line.startswith("run   2 of 7"):
            first.send_signal(signal.SIGINT)
    assert first.wait() == 130 and said[-1].startswith("run "), said

    def entries():
        found = course.folder.glob("challenge/students/*/*/journal.json")
        return {path.parts[-3]: json.loads(path.read_text())["looks"][0] for path in found}

    templates = [psutil.Process(template["pid"]).environ() for template in warm.running()]
    assert course.env()["PYTHONPATH"] not in [variables.get("PYTHONPATH") for variables in templates]
    before = entries()
    done = {name for name, (entry,) in before.items() if entry["accuracy"] is not None}
    again = course("challenge", *options)
    after = entries()
    assert sorted(after) == names
    for name, (entry,) in after.items():
        (earlier,) = before[name]
        assert (entry["seed"], entry["secret"]) == (earlier["seed"], earlier["secret"])
        assert name not in done or entry == earlier  # no run twice

    accuracy = {name: entry["accuracy"] for name, (entry,) in after.items()}
    assert {name: accuracy[name] for name in WRONG} == dict.fromkeys(WRONG, 0.1)
    for name, words in WRONG.items():
        assert re.search(words, after[name][0]["crash"]), after[name][0]["crash"]
    scored = sorted(set(names) - set(WRONG))
    assert all(not after[name][0]["crash"] and 0 < accuracy[name] < 0.9 for name in scored)
    # What counts: the harness's own count and clock.
    samples = {name: after[name][0]["samples"] for name in scored}
    assert samples == {"ann": 1024, "bob": 1024, "cyd": 1024, "dan": 2048, "eve": 1024, "gus": 1024}
    assert after["gus"][0]["seconds"] > 0

    rows = {row.student.id: row for row in challenge.rows(Course(course.folder))}
    assert {name: row.auto for name, row in rows.items()} == dict.fromkeys(names, 0.0)  # of a trial nobody gets points
    assert {name for name, row in rows.items() if row.reasons} == set(WRONG)
    assert "10 students, 10 marked, 4 need a look" in again
    with zipfile.ZipFile(course.folder / "feedback-5.Challenge-score.zip") as pages:
        assert len(pages.namelist()) == 10
