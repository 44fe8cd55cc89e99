"""Sharpness of the loss around trained weights, and its correlation with held-out errors, from recorded runs."""

import math
import statistics
from dataclasses import dataclass

import numpy

from course.convergence.tuning import configuration_of
from ddl.display.style import data_label
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.paired_stats import half_width

MEASURES = {"sharpness": "largest eigenvalue", "invariant": "largest eigenvalue, scale-invariant"}
SETTING = ("configuration", "learning_rate")  # networks with the same values differ only in their seed
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
    p: float = math.nan  # of a mean, by Student's test for 0

    def __str__(self):
        interval = f"95 %: {self.low:+.2f} to {self.high:+.2f}, {self.of.format(self.n)}"
        return f"rank correlation {self.value:+.2f} ({interval})"


def rank_correlation(x, y, of: str = "{} networks") -> RankCorrelation:
    """Return Spearman's rank correlation, equal values sharing the mean of their ranks.

    The interval spans percentiles 2.5 to 97.5 of resampled pairs (Efron 1979). Raises InputError for fewer than four
    pairs, or if values are infinite, NaN or constant.
    """
    x, y = (numpy.asarray(values, float) for values in (x, y))
    if len(x) != len(y) or len(x) < LEAST:
        raise InputError(f"a rank correlation needs at least {LEAST} pairs, got {len(x)} and {len(y)} values")
    if not numpy.isfinite([x, y]).all():
        raise InputError("a rank correlation needs finite values")
    value = float(_spearman(x, y))
    if math.isnan(value):
        raise InputError("a rank correlation needs different values, but all values of one kind are equal")
    draws = numpy.random.default_rng(0).integers(len(x), size=(RESAMPLES, len(x)))
    low, high = numpy.nanpercentile(_spearman(x[draws], y[draws]), [2.5, 97.5])
    return RankCorrelation(value, float(low), float(high), len(x), of)


def between_settings(table: Table, x: str, y: str) -> RankCorrelation:
    """Return the `rank_correlation` of two columns of `sharpness`, of the means of each setting."""
    means = table.groupby(list(SETTING))[[x, y]].mean()
    return rank_correlation(means[x], means[y], "between {} settings")


def within_settings(table: Table, x: str, y: str) -> RankCorrelation:
    """Return the mean of the rank correlations of each setting's seeds, with Student's interval and p.

    Raises InputError with fewer than four settings with several, different seeds.
    """
    from scipy.stats import ttest_1samp

    groups = table.groupby(list(SETTING))[[x, y]]
    each = [float(_spearman(*group.to_numpy(float).T)) for _, group in groups]
    found = [value for value in each if math.isfinite(value)]
    if len(found) < LEAST:
        raise InputError(f"the mean within settings needs {LEAST} settings with several seeds, got {len(found)}")
    mean, half = statistics.fmean(found), half_width(found)
    p = float(ttest_1samp(found, 0).pvalue)
    return RankCorrelation(mean, mean - half, mean + half, len(found), "within {} settings", p)


def _spearman(x, y):
    """Return Pearson's correlation of the ranks along the last axis; NaN if x or y is constant."""
    from scipy.stats import rankdata

    a, b = (rankdata(values, axis=-1) - (values.shape[-1] + 1) / 2 for values in (x, y))
    lengths = numpy.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return (a * b).sum(-1) / numpy.where(lengths > 0, lengths, math.nan)


def sharpness(runs) -> Table:
    """Return recorded measurements of networks as a data frame with a row per network.

    Columns: ``configuration``, ``learning_rate``, ``seed``, ``clean_loss``, ``test_loss``, ``test_error`` in %,
    ``sharpness`` (the Hessian's largest eigenvalue), and ``invariant``: the same for D H D, where the diagonal D has
    the norm of each weight's filter (Kwon et al. 2021, "ASAM"). It does not change when filters are rescaled.

    Raises InputError without runs.
    """
    runs = list(runs)
    if not runs:
        raise InputError("no runs to list")
    rows = [_row(run) for run in runs]
    samples = {f"{run.result['samples']:,} training images of {data_label(run.result['data'])}" for run in runs}
    return Table.of(rows, f"On {' and '.join(sorted(samples))}.")


def _row(run):
    result = run.result
    return {
        "configuration": (configuration_of(run), "weights of", "s"),
        "learning_rate": (result["run"]["learning_rate"], "learning rate", ".3g"),
        "seed": (result["seed"], "seed", "d"),
        "clean_loss": (result["clean_loss"], "training loss", ".3f"),
        "test_loss": (result["test_loss"], "held-out loss", ".3f"),
        "test_error": (100 * (1 - result["test_accuracy"]), "held-out error, %", ".1f"),
        "sharpness": (result["eigenvalue"]["eigenvalues"][0], MEASURES["sharpness"], ".3g"),
        "invariant": (_largest(result.get("invariant")), MEASURES["invariant"], ".3g"),  # not in all records
    }


def _largest(spectrum):
    return spectrum["eigenvalues"][0] if spectrum else math.nan
