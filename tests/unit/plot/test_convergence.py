"""The figures: what they draw is compared with the records, their words with the numbers."""

import pytest

from course import plot
from helpers import finished

DATA = {"name": "cifar10", "form": "official layout, JPEG re-encoded", "train_samples": 45_056}


def result(name, accuracies, seed=0, **fields):
    history = [
        {"step": 10 * k, "epoch": float(k), "samples": 640 * k, "seconds": 1.5 * k + seed, "test_accuracy": value}
        for k, value in enumerate(accuracies, start=1)
    ]
    made = {"name": name, "seed": seed, "data": DATA, "global_batch": 64, "history": history}
    return made | {"hardware": {"cpu": "Some CPU", "gpus": []}, "test_accuracy": accuracies[-1]} | fields


def run(name, accuracies, events=(), **fields):
    return finished(result(name, accuracies, **fields), events=lambda: list(events))


RUNS = [run("a", [0.2, 0.4], seed=0), run("a", [0.3, 0.5], seed=1), run("b", [0.1, 0.2])]


def test_convergence_draws_mean_and_range_over_seeds():
    figure = plot.plot_convergence(RUNS, x="steps")
    line = figure.axes[0].lines[0]
    assert line.get_xdata().tolist() == [10, 20]
    assert line.get_ydata().tolist() == pytest.approx([25, 45])
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(20) and band[:, 1].max() == pytest.approx(50)
