"""What fewer bytes cost: differences of made-up runs, in pairs of the same seed."""

from types import SimpleNamespace

import pytest

from course import messages, plot
from ddl.errors import InputError


def arm(name, sent, **losses):
    made = dict(sent_bytes=sent, finished="2026-11-25T12:00:00")
    return [
        SimpleNamespace(name=name, result={"seed": int(seed[1:]), "held_out_loss": loss, **made})
        for seed, loss in losses.items()
    ]


RUNS = [
    *arm("few", 10, s0=1.5, s1=1.7, s9=9.0),  # a seed that the baseline has not
    *arm("all-reduce", 400, s0=1.0, s1=1.0, s2=1.0),
    *arm("half", 200, s2=1.1, s1=0.9, s0=1.0),
]


def test_ways_are_compared_with_an_all_reduce_of_the_same_seed():
    half, few = messages.differences(RUNS)
    assert (half.name, half.sent_share, few.name, few.sent_share) == ("half", 0.5, "few", 0.025)
    assert sorted(half.pairs.differences) == pytest.approx([-0.1, 0, 0.1])
    assert sorted(few.pairs.differences) == pytest.approx([0.5, 0.7])


def test_without_an_all_reduce_there_is_nothing_to_compare_with():
    with pytest.raises(InputError, match="no run named 'all-reduce' to compare with; there are: few"):
        messages.differences(RUNS[:3])


def test_the_figure_has_a_mark_for_each_way():
    picture = plot.plot_messages(RUNS)
    (panel,) = picture.axes
    marks = [bars.lines[0].get_xydata()[0] for bars in panel.containers]
    assert marks == [pytest.approx([0, 0], abs=1e-9), pytest.approx([0.6, 1])]
    assert "half: 50.0 % of the bytes, loss +0.000 ± 0.248; few: 2.5 % of the bytes, loss +0.600" in picture.alt
