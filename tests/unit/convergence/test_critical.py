"""The critical batch size, from runs whose critical batch is known."""

import math
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

from course.convergence.critical import critical_batch, fit, reached

BATCHES = np.array([32, 64, 128, 256, 512, 1024, 2048, 4096])
DATA = {"name": "synthetic", "form": "generated", "train_samples": 45_056}


def run(batch, steps, *, rate=0.1, seed=0, role="judged", target=0.6, hit=True, **fields):
    """A run that is seen at its target, for the first time, after `steps`."""
    ends = [-(-steps * quarter // 4) for quarter in (1, 2, 3, 4)]
    top = target if hit else target - 0.01
    history = pandas.DataFrame(
        {"step": ends, "samples": [end * batch for end in ends], "test_accuracy": [top * (end / steps) for end in ends]}
    )
    result = {
        "configuration": "momentum",
        "role": role,
        "global_batch": batch,
        "learning_rate": rate,
        "seed": seed,
        "data": DATA,
    }
    result |= {"stopped_by": "target" if hit else "steps", "config": {"target_accuracy": target}, **fields}
    return SimpleNamespace(name=f"batch {batch}", result=result, history=history, recorded=True)


def sweep(steps, batches=BATCHES, seeds=(0, 1, 2), **fields):
    return [run(int(b), int(s), seed=seed, **fields) for b, s in zip(batches, steps, strict=True) for seed in seeds]


def test_fit_recovers_an_exact_curve():
    found = fit(BATCHES, 120 * (1 + 430 / BATCHES))
    assert (found.critical, found.steps_min) == (pytest.approx(430, rel=1e-3), pytest.approx(120, rel=1e-3))
    assert found.samples_min == pytest.approx(430 * 120, rel=1e-3)
    assert found.interval == pytest.approx((430, 430), rel=5e-3)
    # At the critical batch, twice the fewest steps and twice the fewest samples.
    assert found.steps(430) == pytest.approx(240, rel=1e-3)


def test_other_curve_shape_shows_lack_of_fit():
    noise = np.exp(np.random.default_rng(2).normal(0, 0.03, (3, len(BATCHES))))
    for exponent, fits in ((1.0, True), (1.6, False)):
        steps = 9_000 * (1 + (430 / BATCHES) ** exponent)
        runs = [each for seed in range(3) for each in sweep(steps * noise[seed], seeds=(seed,))]
        found = critical_batch(runs)
        assert (found.lack_of_fit > 0.05) == fits and (found.lack_of_fit < 0.01) != fits
        assert found.exponent == (pytest.approx(exponent, rel=0.05), pytest.approx(430, rel=0.1))
        assert f"lack of fit, p = {found.lack_of_fit:.2g}" in str(found.table())
    assert math.isnan(critical_batch(sweep(steps)).lack_of_fit)  # its seeds do not differ


def test_intervals_contain_the_true_value_nine_times_out_of_ten():
    random = np.random.default_rng(1)
    batches, critical, contained = np.repeat(BATCHES, 3), 2000, 0
    for _ in range(100):
        found = fit(batches, 120 * (1 + critical / batches) * np.exp(random.normal(0, 0.05, 24)))
        low, high = found.interval
        contained += low <= critical <= high
        assert high / low < 1.6  # an interval that contains everything says nothing
    assert 0.90 <= contained / 100 <= 0.99


def test_target_is_interpolated_between_evaluations():
    found = reached(run(64, 100), 0.33)
    assert (found.steps, found.samples) == (pytest.approx(55), pytest.approx(55 * 64))
    assert reached(run(64, 100), 0.01).steps == 25  # the first evaluation: what was before it, is not known
    assert reached(run(64, 100), 0.6).steps == 100
    assert reached(run(64, 100, hit=False), 0.6) is None
    with pytest.raises(ValueError, match="stopped at its own target, below 0.7"):
        reached(run(64, 100), 0.7)
    diverged = run(64, 100, hit=False)
    diverged.history["test_accuracy"] = None
    assert reached(diverged, 0.1) is None


def test_points_use_judged_seeds_at_the_tuned_rate():
    tried = ((64, 0.05, 900), (64, 0.1, 700), (64, 0.2, 800), (128, 0.1, 500), (128, 0.2, 400), (128, 0.4, 300))
    tuning = dict(seed=100, role="tuning")
    runs = [
        *[run(batch, steps, rate=rate, hit=rate != 0.4, **tuning) for batch, rate, steps in tried],
        *[run(64, steps, rate=0.1, seed=seed) for seed, steps in enumerate((720, 750))],
        run(64, 10, rate=0.2, seed=0),  # judged, but at another rate
        run(128, 410, rate=0.1, seed=0),
    ]
    first, second = critical_batch(runs).points
    assert (first.batch, first.rate, first.at_edge) == (64, 0.1, False)
    assert {seed: found.steps for seed, found in first.seeds.items()} == {0: 720, 1: 750}
    assert first.steps == pytest.approx(math.sqrt(720 * 750))
    # A rate that missed the target was tried, so that 0.2 is not at the edge; 0.1, which was judged, is.
    assert (second.grid.best, second.grid.at_edge) == (0.2, False)
    assert (second.rate, second.at_edge) == (0.1, True)
    text = str(critical_batch(runs).table())
    assert "edge" in text and "faster in the grid" in text
    # If other settings were also tuned, the grid has the final values of these.
    config = {"target_accuracy": 0.6, "momentum": 0.95}
    other = [run(64, 100, rate=rate, config=config, **tuning) for rate in (0.05, 0.1)]
    assert set(critical_batch([*runs, *other]).points[0].grid.means) == {0.05, 0.1, 0.2}


def test_curve_of_a_readers_runs_is_not_named_after_the_first_of_them():
    runs = [run(batch, 100) for batch in (64, 128)]
    for each in runs:
        del each.result["configuration"]
    assert critical_batch(runs).configuration == "your runs" and critical_batch(runs[:1]).configuration == "batch 64"


def test_fit_excludes_batches_with_missed_seeds():
    steps = 120 * (1 + 430 / BATCHES)
    runs = sweep(steps)
    runs[-1] = run(4096, 20, seed=2, hit=False)
    result = critical_batch(runs)
    assert result.points[-1].missed == 1 and math.isnan(result.points[-1].steps)
    assert result.fit.batches[-1] == 2048 and result.fit.critical == pytest.approx(430, rel=0.05)
    assert max(result.doublings) == 1024
    row = result.table().iloc[-1]
    assert (row["note"], row["region"], row["seeds"]) == ("1 of 3 missed the target", "", 2)


@pytest.mark.parametrize(
    ("steps", "ends", "counts"),  # of batches in each region
    [
        # 32    64    128   256   512  1024  2048 4096: halved within 10 % up to 128, nothing saved from 1024 on
        ((4000, 2000, 1080, 700, 500, 400, 390, 380), (128, 1024), (3, 2, 3)),
        ((4000, 2400, 1200, 1190, 900, 700, 500, 400), (None, None), (0, 8, 0)),  # neither at an end
    ],
)
def test_scaling_regions_are_read_from_the_points(steps, ends, counts):
    result = critical_batch(sweep(steps))
    assert list(result.doublings.values()) == pytest.approx(np.divide(steps[:-1], steps[1:]))
    assert (result.perfect_until, result.maximal_from) == ends
    regions = np.repeat(["perfect scaling", "diminishing returns", "maximal data parallelism"], counts).tolist()
    assert [result.region(batch) for batch in BATCHES] == result.table()["region"].tolist() == regions


TWO_CONFIGURATIONS = sweep([100] * 8) + sweep([200] * 8, configuration="LAMB")


@pytest.mark.parametrize(
    ("runs", "configuration", "message"),
    [
        ([], None, "no runs to evaluate"),
        ([run(64, 100), run(128, 90, target=0.7)], None, "no target in common"),
        (TWO_CONFIGURATIONS, None, "several configurations: choose one with configuration=…, of momentum, LAMB"),
    ],
)
def test_runs_without_a_critical_batch_are_refused(runs, configuration, message):
    with pytest.raises(ValueError, match=message):
        critical_batch(runs, configuration=configuration)
    assert critical_batch(TWO_CONFIGURATIONS, configuration="LAMB").points[0].steps == pytest.approx(200)
