"""The gradient lesson's figures: what they draw is compared with the maths, and they have words."""

import ipywidgets
import pytest

from ddl import plot
from ddl.analysis import descent
from ddl.analysis.descent import EASY, NOISY

MANY = descent.generated(16)
MADE = {
    "descent": lambda: plot.plot_descent(EASY, 0.02),
    "training": lambda: plot.plot_training({"easy": EASY, "noisy": NOISY}, 0.016),
    "average": lambda: plot.plot_average(MANY, 1.5, (1, 4, 16)),
    "spread": lambda: plot.plot_spread(MANY, 1.5, (1, 4, 16), draws=200),
    "best_rate": lambda: plot.plot_best_rate(MANY, (0, 1.5), (1, 8), draws=500),
    "exchange": lambda: plot.plot_exchange([descent.exchange(0, 0.1, [EASY, NOISY])]),
    "ring": lambda: plot.plot_ring(3),
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
