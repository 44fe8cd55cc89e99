"""A class's submissions: what is handed in, scored in the sandbox, and marked; nothing that is handed in is believed."""

import csv
import json

import pytest

from course.challenge.scoring import scores
from helpers import archive
from marking import challenge, grades, sandbox
from marking.course import CHALLENGE, Course
from marking.students import Student, enrol
from submissions import TINY, Stage

pytestmark = pytest.mark.slow("source_code/course/challenge/*")
STUDENTS = ("ann", "bob", "cyd", "dan", "eve", "fay", "gus")
FILE = TINY
FORGED = {
    "score.json": json.dumps({"runs": [{"seed": 7, "secret": 8, "accuracy": 0.99}] * 5}),
    "result.json": json.dumps({"samples": 1024, "public_accuracy": 0.99}),
    "board.json": json.dumps([{"name": "bob", "counts": True}]),
}


@pytest.fixture
def stage(monkeypatch):
    """A stage for runs, and no sandbox: nothing is run in it."""
    monkeypatch.setattr(sandbox, "find", lambda: sandbox.bubblewrap)
    return Stage(monkeypatch)


@pytest.fixture
def course(tmp_path, empty_gradebook):
    """A course folder with students in the gradebook."""
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
        challenge.score(course, **{"data_set": "synthetic", "say": str, **options})
        return {row.student.id: row.auto for row in challenge.rows(course)}

    return score


def score_of(course, student):
    (found,) = scores(course.folder / "challenge" / "students" / student / "scores")
    return found


def test_marks_go_by_processor_time_scored_in_the_sandbox(course, take_in, stage, scored):
    copy = archive({"mine.py": FILE + "# other\n"})
    other = {"bob/mine.py": FILE + "# other\n", "bob/copy.zip": copy}
    found, strays = take_in({"ann.py": FILE, "zoe.py": FILE})
    assert found == ["ann"] and list(strays) == ["zoe.py"]
    assert scored() == {"ann": 6.0}  # 0.8 of the baseline's time
    stage.accuracy = 0.6
    assert take_in(other)[0] == ["ann", "bob"]
    assert scored() == {"ann": 6.0, "bob": 0.0}
    assert len(stage.starts) == 10 and {start for start, _ in stage.starts} == {sandbox.start_trainer}
    # Marks are a separate assignment, and are in the table of grades.
    (path, *_), _ = grades.grades(course, [CHALLENGE])
    with open(path) as file:
        ann, _, cyd, *_ = csv.DictReader(file)
    assert (ann["lesson"], ann["auto"], ann["max"], cyd["total"]) == ("5.Challenge-score", "6.0", "10.0", "")


def test_scores_in_a_hand_in_are_ignored(course, take_in, stage, scored):
    stage.accuracy = 0.6
    folder = {f"cyd/{name}": text for name, text in FORGED.items()}
    take_in({"ann.py": FILE, "bob.zip": archive({"mine.py": FILE, **FORGED}), "cyd/mine.py": FILE, **folder})
    assert scored() == {"ann": 0.0, "bob": 0.0, "cyd": 0.0}
    assert len(stage.seeds) == len(set(stage.seeds)) == 15 and not {seed for seed, _ in stage.seeds} & {7}


def test_hand_in_without_a_submission_gets_no_mark(course, take_in, stage, scored):
    two = {"a.py": "A = 1\n", "b.py": "B = 1\n"}
    outside = archive({"../students/ann/submission/mine.py": "# cyd's\n"})
    take_in({"ann.py": FILE, "bob.zip": archive(two), "cyd.zip": outside, "dan/notes.txt": "see mail"})
    assert scored() == {"ann": 6.0, "bob": None, "cyd": 6.0, "dan": None}
    reasons = {student: course.notes(CHALLENGE, student).collected[-1] for student in ("bob", "dan")}
    assert "2 Python files" in reasons["bob"] and "0 Python files" in reasons["dan"]
    assert score_of(course, "ann").name == "ann.py"


def test_interrupted_scoring_resumes_with_the_same_seeds(course, take_in, stage, scored):
    take_in({"ann.py": FILE, "bob.py": FILE + "# other\n"})
    stage.plan = {0: "RuntimeError: unlucky", 3: "interrupt"}
    with pytest.raises(KeyboardInterrupt):
        scored()
    before = list(stage.seeds)
    assert scored()["ann"] == 0.0  # the failure counts
    assert len(set(stage.seeds)) == 6 and before[3] in stage.seeds[len(before) :]
    assert not {*before[:3]} & {*stage.seeds[len(before) :]}  # what is done is not run again
    assert "unlucky" in course.notes(CHALLENGE, "ann").marked[0]


CLASS = {
    "ann/mine.py": TINY,
    "bob/nosy.py": TINY + "exec(open('{ann}').read())\n",
    "cyd.zip": FORGED | {"mine.py": TINY + "SAMPLES = 1024\n"},
}


def test_one_command_scores_a_class_in_the_sandbox(course_folder, tmp_path, tiny, monkeypatch):
    monkeypatch.setenv("DDL_DATA_DIR", str(tmp_path / "no CIFAR here"))
    people, handed_in = tmp_path / "students.csv", tmp_path / "hand-ins of May"
    people.write_text("id,first_name\nann,Ann\nbob,Bob\ncyd,Cyd\n")
    for name, content in CLASS.items():
        path = handed_in / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            path.write_bytes(archive(content))
        else:
            path.write_text(content.replace("{ann}", str(handed_in / "ann" / "mine.py")))
    course = course_folder(tmp_path / "course", tiny)
    options = ["--students", people, "--from", handed_in, "--trial", 1024]

    said = course("challenge", *options)
    scores = course.folder.glob("challenge/students/*/scores/*/score.json")
    runs = {path.parts[-4]: json.loads(path.read_text())["runs"][0] for path in scores}
    assert sorted(runs) == ["ann", "bob", "cyd"]
    assert "FileNotFoundError" in runs["bob"]["failure"] and runs["bob"]["accuracy"] == 0.1
    assert runs["ann"]["samples"] == runs["cyd"]["samples"] == 1024 and runs["ann"]["cpu_s"] > 0
    assert "3 students, 3 marked, 1 need a look" in said and "compressed" in said
