"""The board, its picture, one's own attempts, and what is handed in."""

import json
import zipfile

import pytest

from course import challenge
from course.challenge import handin, standings
from course.challenge.journal import sha256
from course.challenge.scoring import score
from course.challenge.verdict import Score
from course.plot import plot_challenge
from ddl import cli
from ddl.errors import InputError
from ddl.records.jsonfiles import append_json_line, write_json
from ddl.records.paths import runs_dir

GOOD, BAD = (0.75, 0.752, 0.748, 0.751, 0.753), (0.70, 0.71, 0.69, 0.7, 0.705)


def rows(*scores):
    return [standings.standing(each) for each in scores]


def a_score(name, accuracies=GOOD, samples=180_224, ratios=(1.0, 1.1)):
    return Score(name, accuracies, samples=samples, ratios=ratios, target=0.72)


@pytest.fixture(autouse=True)
def no_recordings(monkeypatch, tmp_path):
    """A course without recorded runs of the challenge."""
    (tmp_path / "reference").mkdir()
    monkeypatch.setattr(standings, "reference_dir", lambda: tmp_path / "reference")
    return tmp_path / "reference"


def test_what_counts_comes_first_by_samples_or_by_time():
    few = a_score("few", samples=90_112, ratios=(2.0, 2.2))
    fast = a_score("fast", samples=135_168, ratios=(0.5, 0.6))
    missed = a_score("missed", BAD, samples=1024, ratios=(0.1, 0.1))
    timeless = a_score("timeless", samples=45_056, ratios=())
    by_samples = standings.table(rows(missed, fast, few, timeless))
    assert list(by_samples["name"]) == ["timeless", "few", "fast", "missed"]
    assert list(by_samples["place"].fillna(0)) == [1, 2, 3, 0]
    by_time = standings.table(rows(missed, fast, few, timeless), "time")
    assert list(by_time["name"]) == ["fast", "few", "timeless", "missed"]
    assert list(by_time["place"].fillna(0)) == [1, 2, 0, 0]
    with pytest.raises(InputError, match="by samples or by time"):
        standings.table([], "accuracy")


def test_a_board_shows_what_has_no_samples_place_or_time_beside_what_has():
    crashed = Score("crashed", (0.1,) * 5, crashes=("it crashed",) * 5)
    new = Score("new", (), left=5)
    board = standings.table(rows(crashed, a_score("few", samples=90_112), new))
    _, few, *others = [line.split()[:4] for line in repr(board).splitlines()]
    assert few == ["few", "1", "90,112", "1.05"]
    assert others[:2] == [["crashed", "–", "–", "–"], ["new", "–", "–", "–"]]


def test_the_board_leaves_out_trials_and_generated_pictures(stage, submission):
    path = submission()
    score(path, n=1, samples=1024, progress=str)
    score(path, data_set="synthetic", progress=str)
    found = standings.board()
    assert "2 scores on other images or sizes left out" in repr(found)
    score(path, progress=str)
    found = standings.board()
    assert list(found["name"]) == ["mine.py"] and list(found["counts"]) == ["yes"]
    assert "75.00%" in repr(found) and "180,224" in repr(found) and "0.80 to 0.80" in repr(found)


def test_the_recorded_baseline_and_reference_stand_on_the_board(no_recordings):
    for name, accuracy, samples, seconds in (("baseline", 0.73, 180_224, 50.0), ("reference", 0.76, 90_112, 30.0)):
        for seed in range(5):
            line = {"samples": samples, "private_accuracy": accuracy + seed / 1000, "seed": seed}
            timed = {**line, "arm": name, "seconds": seconds + seed * 5}  # 0.6 to 0.71 in pairs
            append_json_line(no_recordings / "challenge-times.jsonl", timed)
            if name == "baseline":
                append_json_line(no_recordings / "challenge-baseline.jsonl", line)
    found = standings.board()
    assert list(found["name"]) == ["reference", "baseline"] and list(found["ratio"]) == pytest.approx([40 / 60, 1.0])
    assert found["time_interval"][0] == "0.60 to 0.71"
    single = [{"name": "idea", "samples": 45_056, "public_accuracy": 0.68, "ratio": 0.4}]
    picture = plot_challenge(found, single)
    assert "reference 76.2% after 90,112 samples and 0.67 of the baseline's time" in picture.alt
    assert "1 single run, at best 68.0% of the public images" in picture.alt
    assert [line.get_xdata()[0] for panel in picture.axes for line in panel.lines if "idea" in line.get_label()] == [
        45.056, 0.4
    ]  # fmt: skip


def test_attempts_are_ones_single_runs_on_cifar_10():
    def run(number, **changes):
        folder = runs_dir() / f"20260101-00000{number}-abcd"
        folder.mkdir(parents=True)
        write_json(folder / "job.json", {"id": folder.name, "name": "mine", "created": 1.0, "workers": 2})
        result = {"challenge": {"score_id": None}, "data": {"name": "cifar10"}, "samples": 90_112, "seconds": 50.0}
        write_json(folder / "result.json", {**result, "public_accuracy": 0.7, **changes})

    others = [
        {"challenge": {"score_id": "abc-1"}},
        {"trial": True},
        {"data": {"name": "synthetic"}},
        {"challenge": None},
    ]
    for number, changes in enumerate([{}, *others, {"public_accuracy": None}], start=1):
        run(number, **changes)
    (found,) = standings.attempts()
    assert (found["name"], found["samples"], found["public_accuracy"]) == ("mine", 90_112, 0.7)
    assert found["ratio"] is None
    baseline = sha256(standings.BASELINE_FILE.read_bytes())
    for number, seconds in ((7, 100.0), (8, 110.0), (9, 60.0)):
        run(number, challenge={"score_id": "abc-1", "file": baseline}, seconds=seconds)
    assert standings.attempts()[0]["ratio"] == 0.5


def test_what_is_handed_in_has_the_file_its_records_and_versions(stage, submission, tmp_path, monkeypatch):
    monkeypatch.setattr(handin, "pictures", lambda data_set: "cifar10")
    monkeypatch.chdir(tmp_path)

    def packed(*into):
        with zipfile.ZipFile(challenge.submit(path, *into)) as archive:
            assert archive.read("mine.py") == path.read_bytes()
            return archive.namelist(), json.loads(archive.read("records/about.json"))

    path = submission()
    assert packed()[1]["score"] == "not scored" and (tmp_path / "challenge-mine.zip").exists()
    score(path, progress=str)
    names, about = packed(tmp_path / "out.zip")
    assert about["score"].startswith("counts: ") and "tensorflow" in about["versions"]
    assert "records/journal.json" in names and "records/run-9/result.json" in names
    assert [name for name in names if name.endswith(".py")] == ["mine.py"]
    with pytest.raises(InputError, match="its name must end in .zip"):
        challenge.submit(path, tmp_path / "out.tar")


def test_the_command_scores_with_its_options_and_shows_and_draws_the_board(stage, submission, capsys, tmp_path):
    def said(*words):
        assert cli.main(["challenge", *map(str, words)]) == 0
        return capsys.readouterr().out

    path, figure = submission(), tmp_path / "board.svg"
    assert "counts: mean 75.00%" in said("score", path, "--samples-only", "-n", 4, "--runs", 6, "--site", "here.toml")
    assert len(stage.launches) == 6
    assert {(options["workers"], options["site"]) for options in stage.launches} == {(4, "here.toml")}
    assert "mine.py" in said("board", "--by", "time", "--figure", figure) and figure.stat().st_size
    assert said("rules") == challenge.RULES


def test_an_interrupted_command_says_how_to_go_on(stage, submission, capsys):
    stage.plan[1] = ("interrupted", None)
    assert cli.main(["challenge", "score", str(submission()), "--samples-only"]) == 130
    assert capsys.readouterr().err == (
        "ddl: mine.py: 4 of 5 runs still to come; score it again to go on with the same seeds\n"
    )


def test_a_wrong_value_is_one_sentence(capsys):
    for arguments, said in (
        ("run missing.py", "there is no file missing.py; the course's own submissions are: "),
        ("score baseline.py -n 3", "workers=3: the global batch of 1,024 is divided equally"),
        ("score baseline.py --runs 4", "n=4: a score takes at least 5 runs"),
        ("run baseline.py --data-set mnist", "data_set='mnist' is not one of: auto, cifar10, synth"),
        ("run baseline.py --seed -1", "seed=-1: a whole number from 0 to 2,147,483,647 is needed"),
        ("run baseline.py --samples 0", "samples=0: a whole number of at least 1 is needed"),
    ):
        assert cli.main(["challenge", *arguments.split()]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"ddl: {said}") and error.count("\n") == 1
