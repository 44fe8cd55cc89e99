from types import SimpleNamespace

import pytest

from course import plot
from course.convergence.sharpness import between_settings, sharpness, within_settings

DATA = {"name": "cifar10", "form": "official layout, JPEG re-encoded", "train_samples": 45_056}
# Two learning rates, the lower one first, of two seeds each.
SHARPNESS = {"small": [3.0, 4.0, 5.0, 7.0], "large": [40.0, 9.0, 20.0, 10.0]}
LOSS = {"small": [0.74, 0.76, 0.71, 0.73], "large": [0.8, 0.9, 0.75, 0.74]}


def run(arm, seed, **fields):
    result = {
        "run": {"name": arm, "learning_rate": 0.1 * (1 + seed // 2)},
        "seed": seed,
        "samples": 2048,
        "chunk": 1024,
        "data": DATA,
    }
    result |= {"test_loss": LOSS[arm][seed], "eigenvalue": {"eigenvalues": [SHARPNESS[arm][seed]]}}
    result["invariant"] = {"eigenvalues": [100 - SHARPNESS[arm][seed]]}
    result["slices"] = {"distances": [-1.0, 0.0, 1.0], "losses": [[2.0 + seed, 0.5, 2.0], [1.0, 0.5, 3.0]]}
    return SimpleNamespace(name="landscape", result=result | fields)


RUNS = [run(arm, seed) for arm in SHARPNESS for seed in range(4)]


def test_sharpness_has_both_kinds_side_by_side_with_their_correlations_and_the_means_of_settings():
    figure = plot.plot_sharpness(RUNS)
    plain, invariant = figure.axes
    assert [line.get_label() for line in plain.lines[1::2]] == ["small", "large"]
    assert plain.lines[2].get_xdata().tolist() == SHARPNESS["large"]
    assert invariant.lines[2].get_xdata().tolist() == [60, 91, 80, 90]
    assert plain.lines[2].get_ydata().tolist() == invariant.lines[2].get_ydata().tolist() == LOSS["large"]
    means = plain.lines[3].get_xydata().tolist()
    assert means == [pytest.approx([15, 0.745]), pytest.approx([24.5, 0.85])]  # the higher rate first
    for find, value in ((between_settings, 0.4), (within_settings, 0.5)):
        found = find(sharpness(RUNS), "sharpness", "test_loss")
        assert str(found) in figure.alt and found.value == pytest.approx(value)
        assert (
            f"{found.value:+.2f} (95 %" in plain.get_title() and f"{-found.value:+.2f} (95 %" in invariant.get_title()
        )
    assert (plain.get_xscale(), invariant.get_xscale()) == ("log", "linear")  # 3 to 40, and 60 to 97
