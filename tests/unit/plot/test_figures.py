"""Every figure's text alternative, labels, data, origin and whole text; and what some draw, against their numbers."""

from unittest import mock

import matplotlib
import pytest
from matplotlib.text import Text

from course import pipeline, plot, recorded, roofline
from course.convergence.critical import Noise, critical_batch
from course.gradients import descent
from course.gradients.descent import EASY, NOISY
from course.shared import cost
from course.shared.recorded import Recorded
from helpers import finished


def raced():
    """Return a run of two variants of code to average gradients."""
    variant = {"computation": [(0.0, 0.1)], "communication": [(0.05, 0.2)], "seconds": [0.2, 0.2], "messages": 1}
    return Recorded({"name": "race", "finished": "2026-11-27", "variants": {"Flat": variant, "Bucketed": variant}})


MANY = descent.generated(16)
LINK = cost.Link(1e-5, 1e-10)
FIGURES = {
    "descent": lambda: plot.plot_descent(EASY, 0.02),
    "training": lambda: plot.plot_training({"easy": EASY, "noisy": NOISY}, 0.016),
    "spread": lambda: plot.plot_spread(MANY, 1.5, (1, 4, 16), draws=200),
    "best rate": lambda: plot.plot_best_rate(MANY, (0, 1.5), (1, 8), draws=500),
    "ring": lambda: plot.plot_ring(3),
    "map": lambda: plot.plot_map(MANY, (1, 2, 4), 0.002),
    "one step": lambda: plot.plot_one_step((2, 4)),
    "minima": lambda: plot.plot_minima(),
    "schedule": lambda: plot.plot_schedule({"ramp": ([0, 8], [0.0, 0.8])}),
    "cost": lambda: plot.plot_cost({"a layer": (0.01, (4e6,))}, LINK, 2),
    "lost share": lambda: plot.plot_lost_share(60, 300, 11_124),
    "algorithms": lambda: plot.plot_algorithms(64, 1e-5, 1e-10),
    "links": lambda: plot.plot_links(),
    "convergence": lambda: plot.plot_convergence(configurations()),
    "differences": lambda: plot.plot_differences(configurations(), configurations()[0].name),
    "noise scale": lambda: plot.plot_noise_scale(recorded("critical-batch")[:3]),
    "tuning": lambda: plot.plot_tuning(recorded("convergence-tuning")),
    "critical": lambda: plot.plot_critical_batch(curve(), noise={"live": Noise((300.0,))}),
    "tasks": lambda: plot.plot_tasks(curve(), Noise((400.0,))),
    "sharpness": lambda: plot.plot_sharpness(recorded("landscape")),
    "variants": lambda: plot.plot_communication(raced()),
    "overlap": lambda: plot.plot_overlap(roofline.overlap_on_h100(), predicted=[13_800]),
    "memory": lambda: plot.plot_memory(recorded("sharding-memory")),
    "cycles": lambda: plot.plot_cycles(GPipe=pipeline.gpipe(4, 8), interleaved=pipeline.one_f_one_b(4, 8, chunks=2)),
}
RECORDED = {"convergence", "differences", "tuning", "critical", "sharpness"}


def configurations():
    return recorded("convergence-cifar10")[:12]


def curve(configuration="SGD with momentum"):
    return critical_batch(recorded("critical-batch"), configuration=configuration)


def shown(figure):
    """Return what a notebook displays of a figure, and the texts that are not wholly on its canvas there."""
    whole, draw = {}, Text.draw

    def measured(text, renderer):
        if text.get_visible() and text.get_text():
            box, canvas = text.get_window_extent(renderer), figure.bbox.padded(1)
            # The last drawing counts: by then all is laid out.
            whole[text] = canvas.contains(*box.min) and canvas.contains(*box.max)
        draw(text, renderer)

    with mock.patch.object(Text, "draw", measured):
        bundle = figure._repr_mimebundle_()
    return bundle, [text.get_text() for text in whole if not whole[text]]


# Of each module, `make test` lays out one figure.
FAST = (
    "algorithms",
    "cost",
    "differences",
    "links",
    "lost share",
    "one step",
    "ring",
    "schedule",
    "sharpness",
    "variants",
)
LATER = pytest.mark.slow("source_code/course/*plot_*", "source_code/course/shared/figure.py")


@pytest.mark.parametrize("name", FIGURES)
def test_figure_has_alternative_text_labels_data_and_origin(name):
    before = dict(matplotlib.rcParams)
    figure = FIGURES[name]()
    assert dict(matplotlib.rcParams) == before
    assert len(figure.alt) > 40 and "inf" not in figure.alt.split()
    panels = [panel for panel in figure.axes if panel.axison]
    assert any(panel.get_xlabel() for panel in panels) and all(panel.has_data() for panel in panels)
    titles = " ".join([*(panel.get_title() for panel in figure.axes), figure.get_suptitle()])
    assert name not in RECORDED or "cifar10 (official layout" in titles


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else LATER) for name in FIGURES])
def test_figure_is_shown_with_its_whole_text(name):
    figure = FIGURES[name]()
    bundle, cut = shown(figure)
    assert bundle["text/plain"] == figure.alt and cut == []
    assert 'alt="' in bundle["text/html"] and "data:image/svg+xml;base64," in bundle["text/html"]


def test_convergence_draws_mean_and_range_over_seeds():
    runs = []
    for name, seed, accuracies in (("a", 0, (0.2, 0.4)), ("a", 1, (0.3, 0.5)), ("b", 0, (0.1, 0.2))):
        history = [{"step": 10 * k, "epoch": float(k), "test_accuracy": each} for k, each in enumerate(accuracies, 1)]
        runs.append(finished({"name": name, "seed": seed, "data": {"name": "cifar10", "form": ""}, "history": history}))
    (panel,) = plot.plot_convergence(runs, x="steps").axes
    assert panel.lines[0].get_xdata().tolist() == [10, 20]
    assert panel.lines[0].get_ydata().tolist() == pytest.approx([25, 45])
    band = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((20, 50))


def test_the_fitted_curve_is_drawn_for_steps_and_samples():
    measured = curve()
    steps, samples, _ = plot.plot_critical_batch(measured).axes
    lines = [[line for line in panel.lines if line.get_label() == "fitted curve"] for panel in (steps, samples)]
    (fitted,), (times_batch,) = lines
    assert fitted.get_ydata() == pytest.approx(measured.fit.steps(fitted.get_xdata()))
    assert times_batch.get_ydata() == pytest.approx(fitted.get_ydata() * fitted.get_xdata())
    dots = [line for line in steps.lines if line.get_marker() == "o"]
    assert [list(line.get_xdata()) for line in dots] == [[point.batch] * 3 for point in measured.points]
    assert list(dots[0].get_ydata()) == [found.steps for found in measured.points[0].seeds.values()]


def test_steps_lie_on_the_loss_curve():
    figure = plot.plot_descent(EASY, 0.02, w=-0.5, iterations=5)
    steps = figure.axes[0].lines[1]
    assert steps.get_xdata() == pytest.approx(descent.descend(-0.5, 0.02, [EASY], 5))
    assert steps.get_ydata() == pytest.approx(descent.loss(steps.get_xdata(), EASY))
    assert "leaves the figure" not in figure.alt
    assert "leaves the figure at step 2" in plot.plot_descent(EASY, 0.15).alt
