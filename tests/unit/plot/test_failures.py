"""The figure of what is lost over the interval between checkpoints marks the optimum, and its dots are simulated."""

import pytest

from course import failures, plot


def test_the_line_is_lowest_at_young_s_optimum_which_is_marked():
    picture = plot.plot_lost_share(60, 300, 11_124)
    (panel,) = picture.axes
    line, dots, young, daly = panel.lines
    minutes, lost = line.get_data()
    assert minutes[lost.argmin()] == pytest.approx(failures.young(60, 11_124) / 60, rel=0.05)
    assert young.get_xdata()[0] == pytest.approx(failures.young(60, 11_124) / 60)
    assert daly.get_xdata()[0] == pytest.approx(failures.daly(60, 11_124) / 60)
    assert dots.get_ydata()[0] == pytest.approx(100 * failures.simulated_share(60 * minutes[0], 60, 300, 11_124))
    share = dots.get_ydata()
    assert share[-1] > 1.3 * lost[-1] and share[len(share) // 2] < 1.1 * lost.min()
    assert max(dots.get_ydata()) < panel.get_ylim()[1]
    assert "19.3 minutes by Young and 18.6 minutes by Daly" in picture.alt
