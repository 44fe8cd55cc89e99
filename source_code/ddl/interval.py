"""Confidence intervals of a mean."""

import math
import statistics
from collections.abc import Sequence


def half_width(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval, t(0.975, n − 1) × s / √n; NaN for fewer than two values."""
    from scipy.stats import t

    n = len(values)
    return float(t.ppf(0.975, n - 1)) * statistics.stdev(values) / math.sqrt(n) if n > 1 else math.nan
