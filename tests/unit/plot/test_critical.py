"""Figures of the critical batch, of differences and of rates: what they draw is what was measured."""

import pytest

from course import plot, recorded
from course.convergence.critical import critical_batch

MEASURED = critical_batch(recorded("critical-batch"), arm="SGD with momentum")


def curve(panel, label):
    return next(line for line in panel.lines if line.get_label() == label)


def test_the_fitted_curve_is_drawn_for_steps_and_samples():
    steps, samples, _ = plot.plot_critical_batch(MEASURED).axes
    line = curve(steps, "fitted curve")
    assert line.get_ydata() == pytest.approx(MEASURED.fit.steps(line.get_xdata()))
    assert curve(samples, "fitted curve").get_ydata() == pytest.approx(line.get_ydata() * line.get_xdata())
    dots = [line for line in steps.lines if line.get_marker() == "o"]
    assert [list(line.get_xdata()) for line in dots] == [[point.batch] * 3 for point in MEASURED.points]
    assert list(dots[0].get_ydata()) == [found.steps for found in MEASURED.points[0].seeds.values()]
