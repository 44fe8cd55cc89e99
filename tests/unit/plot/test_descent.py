"""The gradient lesson's figures: what they draw is compared with the maths, and they have words."""

import pytest

from course import plot
from course.gradients import descent
from course.gradients.descent import EASY


def test_steps_lie_on_the_loss_curve():
    figure = plot.plot_descent(EASY, 0.02, w=-0.5, iterations=5)
    steps = figure.axes[0].lines[1]
    assert steps.get_xdata() == pytest.approx(descent.descend(-0.5, 0.02, [EASY], 5))
    assert steps.get_ydata() == pytest.approx(descent.loss(steps.get_xdata(), EASY))
    assert "leaves the figure" not in figure.alt
    assert "leaves the figure at step 2" in plot.plot_descent(EASY, 0.15).alt
