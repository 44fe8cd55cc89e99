"""Pictures of the strategies: what they draw and say is what the records have."""

from types import SimpleNamespace

import pytest

from course.multi_gpu.plot_strategies import plot_loss_scaling, plot_staleness

DATA = {"name": "cifar10", "form": "official layout, JPEG re-encoded", "train_samples": 45_056}


def run(**result):
    return SimpleNamespace(id="id", name="ps", state="done", result={"data": DATA, **result})


def test_staleness_is_drawn_as_shares_of_all_updates():
    figure = plot_staleness(run(ranks=2, staleness=[1, 2, 0, 1]))
    panel = figure.axes[0]
    assert [bar.get_height() for bar in panel.patches] == pytest.approx([25, 50, 0, 25])
    assert panel.lines[0].get_xdata()[0] == pytest.approx(5 / 4)
    assert "4 updates by 2 asynchronous workers" in figure.alt
    assert "50 % came 1 update late" in figure.alt and "1.25 on average" in figure.alt


def test_loss_scaling_figure_does_not_rely_on_color():
    cases = [
        {"name": "sum", "how": "s", "batch": "whole", "relative_error": 2e-7, "ratio": 1.0},
        {"name": "mean", "how": "m", "batch": "short", "relative_error": 1.0, "ratio": 2.0},
    ]
    figure = plot_loss_scaling(run(cases=cases, replicas=2, samples_per_replica={"whole": [4, 4], "short": [2, 1]}))
    panel = figure.axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["sum", "mean"]
    points = [line for line in panel.lines if line.get_marker() in "oX"]
    assert [point.get_xdata()[0] for point in points] == [2e-7, 1.0]
    assert [point.get_marker() for point in points] == ["o", "X"]
    words = [text.get_text() for text in panel.texts]
    assert "right, 1.00 × as long" in words and "wrong, 2.00 × as long" in words
    assert "short batch: 2 + 1 samples" in figure.alt
