from types import SimpleNamespace

import pytest

from course import plot
from course.convergence.sharpness import rank_correlation, sharpness
from ddl.errors import InputError

DATA = {"name": "cifar10", "form": "official layout, JPEG re-encoded", "train_samples": 45_056}
SHARPNESS = {"small": [3.0, 4.0, 5.0], "large": [40.0, 9.0, 20.0]}
LOSS = {"small": [0.7, 0.72, 0.71], "large": [0.8, 0.9, 0.75]}


def run(arm, seed, **fields):
    result = {"run": {"name": arm}, "seed": seed, "samples": 2048, "chunk": 1024, "data": DATA}
    result |= {"test_loss": LOSS[arm][seed], "eigenvalue": {"eigenvalues": [SHARPNESS[arm][seed]]}}
    result["invariant"] = {"eigenvalues": [100 - SHARPNESS[arm][seed]]}
    result["slices"] = {"distances": [-1.0, 0.0, 1.0], "losses": [[2.0 + seed, 0.5, 2.0], [1.0, 0.5, 3.0]]}
    return SimpleNamespace(name="landscape", result=result | fields)


RUNS = [run(arm, seed) for arm in SHARPNESS for seed in range(3)]


def test_sharpness_has_both_kinds_side_by_side_with_their_correlations():
    picture = plot.plot_sharpness(RUNS)
    plain, invariant = picture.axes
    assert [line.get_label() for line in plain.lines] == ["small", "large"]
    assert plain.lines[1].get_xdata().tolist() == SHARPNESS["large"]
    assert invariant.lines[1].get_xdata().tolist() == [60, 91, 80]
    assert plain.lines[1].get_ydata().tolist() == invariant.lines[1].get_ydata().tolist() == LOSS["large"]
    found = rank_correlation(*([*each["small"], *each["large"]] for each in (SHARPNESS, LOSS)))
    assert str(found) in picture.alt and f"{-found.value:+.2f}" in invariant.get_title()
    assert (plain.get_xscale(), invariant.get_xscale()) == ("log", "linear")  # 3 to 40, and 60 to 97
    # Against the held-out error, too.
    runs = [
        SimpleNamespace(**vars(each) | {"result": each.result | {"test_accuracy": 0.5 + 0.01 * place**2}})
        for place, each in enumerate(RUNS)
    ]
    picture = plot.plot_sharpness(runs, y="test_error")
    table = sharpness(runs)
    drawn = [value for line in picture.axes[0].lines for value in line.get_ydata()]
    assert drawn == table["test_error"].tolist() and picture.axes[0].get_ylabel() == "held-out error, %"
    assert picture.alt.startswith("Held-out error of 6 networks")
    with pytest.raises(InputError, match="test_loss, test_error"):
        plot.plot_sharpness(RUNS, y="accuracy")


def test_slices_have_a_line_and_a_band_an_arm():
    picture = plot.plot_slices(RUNS)
    (panel,) = picture.axes
    assert [line.get_label() for line in panel.lines] == ["small (3 networks)", "large (3 networks)"]
    assert panel.lines[0].get_ydata().tolist() == [2, 0.5, 2.5]
    band = panel.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == 0.5 and band[:, 1].max() == 4
    assert "small from 0.5 at its weights to 2.25 at the ends" in picture.alt
    bare = run("small", 0, slices=None, invariant=None)
    with pytest.raises(InputError, match="none of these 1 run of landscape.py has measured slices"):
        plot.plot_slices([bare])
    with pytest.raises(InputError, match="eigenvalue and invariant"):
        plot.plot_sharpness([bare])
