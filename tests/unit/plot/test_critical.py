"""Figures of the critical batch, of differences and of rates: what they draw is what was measured."""

import pytest

from course import plot
from course.convergence.critical import critical_batch
from helpers import finished

BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
DATA = {"name": "cifar10", "form": "official layout, JPEG re-encoded", "train_samples": 45_056}


def run(name, **fields):
    usual = {"name": name, "arm": name, "data": DATA, "stopped_by": "target", "learning_rate": 0.1, "seed": 0}
    return finished(usual | fields)


def sweep(arm, critical, batches=BATCHES, seeds=3):
    runs = []
    for batch in batches:
        for seed in range(seeds):
            steps = round(120 * (1 + critical / batch) * (1 + (seed - 1) / 50))
            row = {"step": steps, "samples": steps * batch, "test_accuracy": 0.61}
            runs.append(
                run(arm, global_batch=batch, seed=seed, config={"target_accuracy": 0.6}, role="judged", history=[row])
            )
    return runs


MEASURED = critical_batch(sweep("momentum", 430))


def curve(panel, label):
    return next(line for line in panel.lines if line.get_label() == label)


def test_the_fitted_curve_is_drawn_for_steps_and_samples():
    steps, samples, _ = plot.plot_critical_batch(MEASURED).axes
    line = curve(steps, "fitted curve")
    assert line.get_ydata() == pytest.approx(MEASURED.fit.steps(line.get_xdata()))
    assert curve(samples, "fitted curve").get_ydata() == pytest.approx(line.get_ydata() * line.get_xdata())
    dots = [line for line in steps.lines if line.get_marker() == "o"]
    assert [list(line.get_xdata()) for line in dots] == [[batch] * 3 for batch in BATCHES]
    assert list(dots[0].get_ydata()) == [found.steps for found in MEASURED.points[0].seeds.values()]
