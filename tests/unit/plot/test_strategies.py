"""Pictures of the strategies: what they draw and say is what the records have."""

from types import SimpleNamespace

import numpy as np
import pytest

from course.workers.plot_strategies import plot_agreement, plot_loss_scaling, plot_staleness
from ddl.records.folder import RunFolder

DATA = {"name": "cifar10", "form": "official layout, JPEG re-encoded", "train_samples": 45_056}


def run(**result):
    return SimpleNamespace(id="id", name="ps", state="done", result={"data": DATA, **result})


def test_staleness_is_drawn_as_shares_of_all_updates():
    picture = plot_staleness(run(ranks=2, staleness=[1, 2, 0, 1]))
    panel = picture.axes[0]
    assert [bar.get_height() for bar in panel.patches] == pytest.approx([25, 50, 0, 25])
    assert panel.lines[0].get_xdata()[0] == pytest.approx(5 / 4)
    assert "4 updates by 2 asynchronous workers" in picture.alt
    assert "50 % came 1 update late" in picture.alt and "1.25 on average" in picture.alt


def test_loss_scaling_tells_right_from_wrong_in_more_than_colour():
    cases = [
        {"name": "sum", "how": "s", "batch": "whole", "relative_error": 2e-7, "ratio": 1.0},
        {"name": "mean", "how": "m", "batch": "short", "relative_error": 1.0, "ratio": 2.0},
    ]
    picture = plot_loss_scaling(run(cases=cases, replicas=2, samples_per_replica={"whole": [4, 4], "short": [2, 1]}))
    panel = picture.axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["sum", "mean"]
    points = [line for line in panel.lines if line.get_marker() in "oX"]
    assert [point.get_xdata()[0] for point in points] == [2e-7, 1.0]
    assert [point.get_marker() for point in points] == ["o", "X"]
    words = [text.get_text() for text in panel.texts]
    assert "right, 1.00 × as long" in words and "wrong, 2.00 × as long" in words
    assert "short batch: 2 + 1 samples" in picture.alt


def test_agreement_is_drawn_over_the_steps_that_all_kept(tmp_path):
    runs = []
    for name, gaps in (("one", {1: 0, 4: 0, 16: 0}), ("two", {1: 0, 4: 1e-3, 16: 0.1}), ("three", {1: 0.2, 4: 0.2})):
        folder = RunFolder(tmp_path / name)
        folder.path.mkdir()
        np.savez(folder.weights, **{f"{step}.0": np.float32([1 + gap, -2]) for step, gap in gaps.items()})
        runs.append(SimpleNamespace(id=name, name=name, folder=folder.path, state="done", result={"data": DATA}))
    picture = plot_agreement(runs)
    two, three, _ = picture.axes[0].lines
    assert two.get_xdata().tolist() == [4]  # after one update the same bit for bit
    assert two.get_ydata() == pytest.approx([5e-4], rel=1e-3)
    assert three.get_xdata().tolist() == [1, 4]
    assert "two 0e+00, 5e-04; three 1e-01, 1e-01" in picture.alt
    with pytest.raises(ValueError, match="at least two runs"):
        plot_agreement(runs[:1])
