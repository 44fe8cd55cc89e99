from types import SimpleNamespace

from course import plot
from course.convergence.sharpness import rank_correlation

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
