"""The board and its figure, and the commands that show them."""

import pytest

from course.challenge import standings
from course.challenge.verdict import Score
from course.plot import plot_challenge
from ddl.records.jsonfiles import append_json_line

GOOD, BAD = (0.75, 0.752, 0.748, 0.751, 0.753), (0.70, 0.71, 0.69, 0.7, 0.705)


def a_score(name, accuracies=GOOD, ratios=(1.0, 1.1), **options):
    return Score(name, accuracies, samples=180_224, ratios=ratios, **options)


@pytest.fixture(autouse=True)
def no_recordings(monkeypatch, tmp_path):
    """A course without recorded runs of the challenge."""
    monkeypatch.setattr(standings, "reference_dir", lambda: tmp_path)
    return tmp_path


def test_fastest_counting_score_comes_first():
    slow, fast, missed = a_score("slow"), a_score("fast", ratios=(0.5,)), a_score("missed", BAD, ratios=(0.2,))
    others = [a_score("trial", trial=True), a_score("generated", data="synthetic")]
    found = standings.board("cifar10", [slow, missed, fast, *others])
    assert list(found["name"]) == ["fast", "slow", "missed"]
    assert list(found["place"])[:2] == [1, 2] and list(found["counts"]) == ["yes", "yes", "no"]
    assert found["ratio"][1] == pytest.approx(1.05) and found["span"][1] == "1.00 to 1.10"
    alt = plot_challenge(found).alt
    assert "fast 75.1% in 0.50 of the baseline's processor time" in alt and "which does not count" in alt


def test_recorded_runs_are_on_the_board_of_their_images(no_recordings):
    for arm, seconds, accuracies in (("baseline", 60.0, GOOD), ("reference", 180.0, (0.85, 0.86, 0.85, 0.86, 0.85))):
        for seed, accuracy in enumerate(accuracies):
            line = {"arm": arm, "seed": seed, "cpu_seconds": seconds, "private_accuracy": accuracy, "samples": 1024}
            append_json_line(no_recordings / "challenge-times.jsonl", line)
            if arm == "baseline":
                append_json_line(no_recordings / "challenge-generated.jsonl", line)
    found = standings.board("cifar10", [a_score("mine", ratios=(0.7,))])
    assert list(found["name"]) == ["mine", "baseline", "reference"] and list(found["ratio"]) == [0.7, 1.0, 3.0]
    assert list(found["kind"]) == ["own", "baseline", "reference"]
    assert list(standings.board("synthetic")["name"]) == ["baseline"]
