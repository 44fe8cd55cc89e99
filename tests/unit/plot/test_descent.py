"""The gradient lesson's figures: what they draw is compared with the maths, and they have words."""

import numpy
import pytest

from course import plot
from course.gradients import descent, sgd
from course.gradients.descent import EASY

MANY = descent.generated(16)


def test_steps_lie_on_the_loss_curve():
    figure = plot.plot_descent(EASY, 0.02, w=-0.5, iterations=5)
    steps = figure.axes[0].lines[1]
    assert steps.get_xdata() == pytest.approx(descent.descend(-0.5, 0.02, [EASY], 5))
    assert steps.get_ydata() == pytest.approx(descent.loss(steps.get_xdata(), EASY))
    assert "leaves the figure" not in figure.alt
    assert "leaves the figure at step 2" in plot.plot_descent(EASY, 0.15).alt


def test_the_map_has_the_colours_of_its_outcomes():
    (mesh,) = plot.plot_map(MANY, (1, 4), 0.002).axes[0].collections
    drawn = numpy.asarray(mesh.get_array()).reshape(2, -1)
    rates = numpy.geomspace(0.0005, 0.512, 181)
    near = sgd.settled_spread(0.002, 1, MANY)
    for row, size in enumerate((1, 4)):
        narrow, border = sgd.rate_of_spread(near, size, MANY), sgd.rate_border(size, MANY)
        assert drawn[row].tolist() == [int(rate > narrow) + int(rate >= border) for rate in rates]


def test_samples_are_steps_times_the_batch_and_seconds_are_points_in_sequence():
    steps, samples, seconds = plot.plot_to_target(MANY, 0.2, 0.002, (1, 4), 1e-6).axes
    for one, other in zip(steps.lines, samples.lines, strict=True):
        assert other.get_ydata() == pytest.approx(one.get_ydata() * [1, 4])
    same, scaled, best = (line.get_ydata() for line in steps.lines)
    assert same.tolist() == [sgd.steps_to(0.2, 0.0, 0.002, size, MANY) for size in (1, 4)]
    assert scaled[1] == sgd.steps_to(0.2, 0.0, 0.008, 4, MANY) and (best <= scaled).all()
    apart, alone, together = (line.get_ydata() for line in seconds.lines)
    assert (
        apart == pytest.approx(same) and together == pytest.approx(scaled) and alone == pytest.approx(scaled * [1, 4])
    )
