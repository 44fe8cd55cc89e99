"""The figures: what they draw is compared with the records, their words with the numbers."""

from types import SimpleNamespace

import numpy
import pandas
import pytest

from course import plot
from course.shared.recorded import Recorded
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


def test_diverged_runs_are_drawn_as_far_as_they_go_and_failed_ones_left_out():
    figure = plot.plot_convergence(run("a", [0.3, None], test_accuracy=None), x="steps")
    assert numpy.isnan(figure.axes[0].lines[0].get_ydata()[-1])
    assert "no held-out accuracy" in figure.alt
    failed = SimpleNamespace(name="f", recorded=False, result=None, history=pandas.DataFrame())
    assert "f (" not in plot.plot_convergence([*RUNS, failed]).alt
    for none, message in (([failed], "none of these runs"), ([], "no runs")):
        with pytest.raises(ValueError, match=message):
            plot.plot_convergence(none)


def test_noise_scale_leaves_out_what_a_logarithm_cannot_show():
    events = [
        {"event": "noise_scale", "step": step, "noise_scale": value}
        for step, value in ((1, None), (2, -5.0), (3, 200.0), (4, 400.0))
    ]
    figure = plot.plot_noise_scale(run("a", [0.2], events=events))
    assert figure.axes[0].lines[0].get_ydata().tolist() == [200, 400]
    assert figure.axes[0].get_yscale() == "log"
    assert "from 200 to 400" in figure.alt and "batch sizes marked: 64." in figure.alt
    other = plot.plot_noise_scale(run("a", [0.2], events=events), batches=(1024, 64))
    assert "batch sizes marked: 64, 1,024." in other.alt
    nothing = plot.plot_noise_scale(run("a", [0.2], events=events[:2]))
    assert "a without an estimate above zero" in nothing.alt and nothing._repr_mimebundle_()
    with pytest.raises(ValueError, match="noise_scale=True"):
        plot.plot_noise_scale(run("a", [0.2]))
    # For a recorded run, it comes from the evaluations.
    scales = (None, 300.0, None, 500.0)  # not measured at the first; not to be told from infinite at the third
    history = [
        {"step": step, "noise_scale": scale, "variance": None if step == 1 else 1.0}
        for step, scale in enumerate(scales, start=1)
    ]
    figure = plot.plot_noise_scale(Recorded(result("a", [0.2], history=history)))
    line = figure.axes[0].lines[0]
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([2, 4], [300, 500])


def test_tradeoff_satisfies_the_papers_equation():
    figure = plot.plot_batch_size_tradeoff(noise_scale=500.0, batches=(64,))
    steps, samples = (axes.lines[0].get_ydata() for axes in figure.axes)
    assert (steps - 1) * (samples - 1) == pytest.approx(1)  # equation 2.11
    assert "batch 64: 8.81 times the steps and 1.13 times the samples" in figure.alt


def test_a_shift_hurts_the_sharp_minimum_more():
    axes = plot.plot_minima(shift=0.25).axes[0]
    training, held_out = (line.get_ydata() for line in axes.lines[:2])
    w = axes.lines[0].get_xdata()
    rise = [(held_out - training)[side][training[side].argmin()] for side in (w < 0, w > 0)]
    assert rise[0] > 10 * rise[1] > 0
