"""The figure of what an average costs lies between its two bounds."""

import pytest

from course import plot
from course.shared import ring
from course.shared.cost import Link


def test_speedups_are_ranks_over_the_longer_step_between_two_bounds():
    link, sizes = Link(1e-3, 1e-9), (4_000_000, 8192)
    picture = plot.plot_cost({"layer": (0.01, sizes)}, link, measured_on=2, ranks=(1, 8))
    speed, share = picture.axes
    _, low, high, *_ = speed.lines
    least, most = ring.waits(sizes, 8, link, 2)
    assert high.get_ydata() == pytest.approx([1, 8 * 0.01 / (0.01 + least)])
    assert low.get_ydata() == pytest.approx([1, 8 * 0.01 / (0.01 + most)])
    assert low.get_ydata()[-1] < high.get_ydata()[-1] < 8
    assert share.lines[0].get_ydata() == pytest.approx(low.get_ydata() * [100, 100 / 8])
    assert f"layer: {low.get_ydata()[-1]:.3g} to {high.get_ydata()[-1]:.3g} times at 8 ranks" in picture.alt
