"""The board and its figure, and the commands that show them."""

import pytest

from course.challenge import standings
from course.challenge.verdict import Score
from course.plot import plot_challenge

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
