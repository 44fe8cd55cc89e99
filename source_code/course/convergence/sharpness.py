"""How sharp the loss is around trained weights, and whether that orders their loss on held-out pictures."""

import math
import statistics
from dataclasses import dataclass

import numpy

from course.convergence.tuning import arm_of
from ddl.display.style import data_label
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.interval import half_width

MEASURES = {"sharpness": "largest eigenvalue", "invariant": "largest eigenvalue, scale-invariant"}
SETTING = ("arm", "learning_rate")  # networks that share both differ in their seed alone
RESAMPLES = 2000
LEAST = 4  # pairs: of three, one in six orders is perfect by chance


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rank correlation of n pairs, or the mean of n of them, with a 95 % interval."""

    value: float
    low: float
    high: float
    n: int
    of: str
    p: float = math.nan  # of a mean: Student's test that it is 0

    def __str__(self):
        interval = f"95 %: {self.low:+.2f} to {self.high:+.2f}, {self.of.format(self.n)}"
        return f"rank correlation {self.value:+.2f} ({interval})"


def rank_correlation(x, y, of: str = "{} networks") -> RankCorrelation:
    """Return Spearman's rank correlation, equal values sharing the mean of their ranks.

    The interval lies between percentiles 2.5 and 97.5 of resampled pairs (Efron 1979). Raises InputError for fewer than
    four pairs, for values that are not finite, or where all of x or all of y are equal.
    """
    x, y = (numpy.asarray(values, float) for values in (x, y))
    if len(x) != len(y) or len(x) < LEAST:
        raise InputError(f"a rank correlation takes {LEAST} pairs or more, and there are {len(x)} and {len(y)} values")
    if not numpy.isfinite([x, y]).all():
        raise InputError("a rank correlation takes finite values")
    value = float(_spearman(x, y))
    if math.isnan(value):
        raise InputError("a rank correlation takes values that differ, and those of one kind are all equal")
    draws = numpy.random.default_rng(0).integers(len(x), size=(RESAMPLES, len(x)))
    low, high = numpy.nanpercentile(_spearman(x[draws], y[draws]), [2.5, 97.5])
    return RankCorrelation(value, float(low), float(high), len(x), of)


def between_settings(table: Table, x: str, y: str) -> RankCorrelation:
    """Return the `rank_correlation` of two columns of `sharpness`, of the means of each setting."""
    means = table.groupby(list(SETTING))[[x, y]].mean()
    return rank_correlation(means[x], means[y], "between {} settings")


def within_settings(table: Table, x: str, y: str) -> RankCorrelation:
    """Return the mean of the rank correlations of each setting's seeds, with Student's interval and p.

    Raises InputError where there are fewer than four settings of several seeds whose values differ.
    """
    from scipy.stats import ttest_1samp

    groups = table.groupby(list(SETTING))[[x, y]]
    each = [float(_spearman(*group.to_numpy(float).T)) for _, group in groups]
    found = [value for value in each if math.isfinite(value)]
    if len(found) < LEAST:
        raise InputError(f"the mean within settings takes {LEAST} of several seeds, and there are {len(found)}")
    mean, half = statistics.fmean(found), half_width(found)
    p = float(ttest_1samp(found, 0).pvalue)
    return RankCorrelation(mean, mean - half, mean + half, len(found), "within {} settings", p)


def _spearman(x, y):
    """Pearson's correlation of the ranks, along the last axis; not a number where all of x or all of y are equal."""
    from scipy.stats import rankdata

    a, b = (rankdata(values, axis=-1) - (values.shape[-1] + 1) / 2 for values in (x, y))
    lengths = numpy.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return (a * b).sum(-1) / numpy.where(lengths > 0, lengths, math.nan)


def sharpness(runs) -> Table:
    """Return what runs of landscape.py found, a row a network; what was not measured is missing.

    Columns: ``arm``, ``learning_rate``, ``seed``, ``clean_loss``, ``test_loss``, ``test_error`` in %, ``sharpness``
    (the Hessian's largest eigenvalue), ``invariant`` (see `course.convergence.landscape.filter_norms`), ``trace``,
    ``noise_scale`` in samples; and standard errors ``trace_error``, ``noise_scale_error``.

    Raises InputError if there are no runs, or one is no finished run of landscape.py.
    """
    runs = list(runs)
    if not runs:
        raise InputError("there are no runs to list")
    rows = [_row(run) for run in runs]
    samples = {f"{run.result['samples']:,} training images of {data_label(run.result['data'])}" for run in runs}
    caption = f"On {' and '.join(sorted(samples))}. ± is one standard error."
    return Table.of(rows, caption)


def _row(run):
    result = run.result
    if result is None or "chunk" not in result:
        raise InputError(f"run {run.name} is no finished run of landscape.py")
    trace, noise = result.get("trace") or {}, result.get("noise") or {}
    return {
        "arm": (arm_of(run), "weights of", "s"),
        "learning_rate": (_number(result.get("run") or {}, "learning_rate"), "learning rate", ".3g"),
        "seed": (result.get("seed"), "seed", "d"),
        "clean_loss": (_number(result, "clean_loss"), "training loss", ".3f"),
        "test_loss": (_number(result, "test_loss"), "held-out loss", ".3f"),
        "test_error": (100 * (1 - _number(result, "test_accuracy")), "held-out error, %", ".1f"),
        "sharpness": (_largest(result.get("eigenvalue")), MEASURES["sharpness"], ".3g"),
        "invariant": (_largest(result.get("invariant")), MEASURES["invariant"], ".3g"),
        "trace": (_number(trace, "mean"), "trace", ".4g"),
        "trace_error": (_number(trace, "error"), "± of the trace", ".2g"),
        "noise_scale": (_number(noise, "noise_scale"), "noise scale", ",.0f"),
        "noise_scale_error": (_number(noise, "noise_scale_error"), "± of the noise scale", ",.0f"),
    }


def _largest(spectrum):
    return float(spectrum["eigenvalues"][0]) if spectrum else math.nan


def _number(facts, name):
    return math.nan if facts.get(name) is None else float(facts[name])
