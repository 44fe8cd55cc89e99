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


def judged(name, accuracies, **fields):
    return [
        run(name, test_accuracy=accuracy, accuracy=0.5, steps=80, samples=5120, epochs=1.0, seed=seed, **fields)
        for seed, accuracy in enumerate(accuracies)
    ]


ARMS = [
    *judged("small", [0.50, 0.60, 0.55]),
    *judged("up", [0.53, 0.64, 0.58]),
    *judged("wide", [0.53, 0.57, 0.55]),
    *judged("lone", [0.40]),
]


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


def test_differences_are_means_of_pairs_with_their_intervals():
    figure = plot.plot_differences(ARMS, "small", margin=1.0)
    panel = figure.axes[0]
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["up (3 pairs)", "wide (3 pairs)", "lone (1 pair)"]
    bars = [line.get_xdata() for line in panel.lines if line.get_linewidth() == 4]
    # Differences of 3, 4 and 3 points: mean 10/3, standard deviation 0.577, t of two degrees of freedom 4.3027.
    half = 4.3027 * 0.57735 / 3**0.5
    assert bars[0] == pytest.approx([10 / 3 - half, 10 / 3 + half], abs=1e-3) and len(bars) == 2
    dots = [sorted(line.get_xdata()) for line in panel.lines if line.get_marker() == "."]
    assert dots[0] == pytest.approx([3, 3, 4])
    shaded = panel.patches[0]
    assert (shaded.get_x(), shaded.get_x() + shaded.get_width()) == (-1, 1)
    assert (
        "up +3.3 (+1.9 to +4.8), better; wide +0.0 (−7.5 to +7.5), not decided; lone −10.0 (no interval)" in figure.alt
    )
    assert [text.get_text() for text in panel.texts] == ["better", "not decided", "not decided"]
