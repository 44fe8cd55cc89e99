"""Failures and checkpoint intervals: formulas and a simulation.

An interval is the training time between two checkpoints; a share is seconds lost per second of training.
"""

import math

import numpy

DAY_S = 24 * 3_600
# Llama 3 on 16,384 H100s: 419 unexpected interruptions in 54 days (arXiv:2407.21783, section 3.3.4).
GPU_MTBF_S = 54 * DAY_S * 16_384 / 419


def young(checkpoint_s: float, mtbf_s: float) -> float:
    """Return the interval with the smallest `lost_share` (Young 1974)."""
    return math.sqrt(2 * checkpoint_s * mtbf_s)


def daly(checkpoint_s: float, mtbf_s: float) -> float:
    """Return the optimal interval to higher order (Daly 2006, equation 37)."""
    ratio = checkpoint_s / (2 * mtbf_s)
    if ratio >= 1:
        return mtbf_s
    return young(checkpoint_s, mtbf_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - checkpoint_s


def lost_share(interval_s: float, checkpoint_s: float, restart_s: float, mtbf_s: float) -> float:
    """Return the lost share to first order: each failure costs a restart and half an interval."""
    return checkpoint_s / interval_s + (interval_s / 2 + restart_s) / mtbf_s


def simulated_share(
    interval_s: float, checkpoint_s: float, restart_s: float, mtbf_s: float, failures: int = 4_000, seed: int = 0
) -> float:
    """Return the lost share of a simulated training with `failures` failures at exponential intervals.

    Each failure costs the work since the last complete checkpoint, and a restart without failures.
    """
    until = numpy.random.default_rng(seed).exponential(mtbf_s, failures)
    kept = interval_s * numpy.floor(until / (interval_s + checkpoint_s)).sum()
    return float((until + restart_s).sum() / kept - 1) if kept else math.inf
