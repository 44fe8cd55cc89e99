"""The gradient lesson's figures: what they draw is compared with the maths, and they have words."""

import ipywidgets
import numpy
import pytest

from ddl import plot
from ddl.analysis import descent, ring
from ddl.analysis.descent import EASY, NOISY

MANY = descent.generated(16)
MADE = {
    "descent": lambda: plot.plot_descent(EASY, 0.02),
    "training": lambda: plot.plot_training({"easy": EASY, "noisy": NOISY}, 0.016),
    "average": lambda: plot.plot_average(MANY, 1.5, (1, 4, 16)),
    "spread": lambda: plot.plot_spread(MANY, 1.5, (1, 4, 16), draws=200),
    "map": lambda: plot.plot_map(NOISY, (1, 2, 4)),
    "best_rate": lambda: plot.plot_best_rate(MANY, (0, 1.5), (1, 8), draws=500),
    "exchange": lambda: plot.plot_exchange([descent.exchange(0, 0.1, [EASY, NOISY])]),
    "ring": lambda: plot.plot_ring(3),
    "cost": lambda: plot.plot_cost({"layer": (0.01, 4_000_000)}, 1e-3, 1e9),
}


@pytest.mark.parametrize("name", MADE)
def test_a_figure_has_words_and_labels_and_can_be_shown(name):
    picture = MADE[name]()
    assert len(picture.alt) > 60
    assert 'alt="' in picture._repr_mimebundle_()["text/html"]
    drawn = [axes for axes in picture.axes if axes.axison]
    assert any(axes.get_xlabel() for axes in drawn) and all(axes.has_data() for axes in drawn)


def test_steps_lie_on_the_loss_curve():
    picture = plot.plot_descent(EASY, 0.02, m=-0.5, iterations=5)
    steps = picture.axes[0].lines[1]
    assert steps.get_xdata() == pytest.approx(descent.descend(-0.5, 0.02, [EASY], 5))
    assert steps.get_ydata() == pytest.approx(descent.loss(steps.get_xdata(), EASY))
    assert "leaves the picture" not in picture.alt
    assert "leaves the picture at step 2" in plot.plot_descent(EASY, 0.15).alt


def test_the_map_has_the_colours_of_its_outcomes():
    rates = numpy.geomspace(0.0005, 0.512, 181)
    (mesh,) = plot.plot_map(NOISY, (1, 4)).axes[0].collections
    names = ["converges", "settles aside", "diverges"]
    drawn = numpy.asarray(mesh.get_array()).reshape(2, -1)
    for row, size in enumerate((1, 4)):
        batches = descent.batches_of(NOISY, size)
        assert [names[kind] for kind in drawn[row]] == [descent.outcome(rate, batches) for rate in rates]


def test_speedup_is_ranks_over_the_longer_step():
    line = plot.plot_cost({"layer": (0.01, 4_000_000)}, 1e-3, 1e9, ranks=(1, 8)).axes[0]
    expected = 8 * 0.01 / (0.01 + ring.ring_seconds(4_000_000, 8, 1e-3, 1e9))
    assert line.lines[1].get_ydata() == pytest.approx([1, expected])


def test_without_somebody_to_move_it_a_slider_is_its_figure(monkeypatch):
    seen = []

    def figure(lr):
        seen.append(lr)
        return plot.plot_descent(EASY, lr)

    assert plot.slider(figure, "lr", 0.01, 1, start=0.1).alt and seen == [0.1]
    monkeypatch.setenv("DDL_VIEW", "live")
    box = plot.slider(figure, "lr", 0.01, 1, start=0.1)
    assert isinstance(box, ipywidgets.VBox)
    handle, shown = box.children
    before = shown.value
    handle.value = 0.5
    assert seen[-1] == pytest.approx(0.5) and shown.value != before and "<img" in shown.value
