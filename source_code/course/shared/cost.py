"""Cost of an all-reduce: the alpha-beta model of several algorithms, and its fit to measurements.

A message of n bytes takes ``alpha + beta n`` seconds: a latency, and the inverse of a bandwidth (Hockney 1994, "The
communication challenge for MPP"). An algorithm costs one alpha per message in sequence and one beta per byte through a
rank's link. The messages of a step travel simultaneously without contention.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy

from ddl.errors import InputError


@dataclass(frozen=True)
class Link:
    """Cost of a message on a link: ``alpha_s + beta_s_per_byte * size``."""

    alpha_s: float  # latency in seconds
    beta_s_per_byte: float  # inverse of the bandwidth in bytes/s

    def __post_init__(self):
        for name in ("alpha_s", "beta_s_per_byte"):
            value = getattr(self, name)
            if not value >= 0:
                raise InputError(f"{name}={value!r}: must be a time >= 0")

    @property
    def bandwidth_gb_per_s(self):
        """Bandwidth in 10⁹ bytes/s; infinite if beta is 0."""
        return 1e-9 / self.beta_s_per_byte if self.beta_s_per_byte else numpy.inf


# ---------------------------------------------------------------- algorithms


def _ranks(ranks):
    if ranks < 1 or int(ranks) != ranks:
        raise InputError(f"ranks must be an integer >= 1, got {ranks!r}")
    return int(ranks)


def ring(size_bytes, ranks: int, alpha_s: float, beta_s_per_byte: float):
    """Return the seconds of a ring all-reduce: 2 (p − 1) messages of n / p bytes in sequence.

    ``2 (p − 1) alpha + 2 (p − 1)/p n beta``, where n, `size_bytes`, is the data of one rank, a float or an array
    (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations").
    """
    p = _ranks(ranks)
    return 2 * (p - 1) * alpha_s + (p - 1) / p * size_bytes * (2 * beta_s_per_byte)


def recursive_doubling(size_bytes, ranks, alpha_s, beta_s_per_byte):
    """Return the seconds of recursive doubling: lg p exchanges of n bytes with a partner; see `ring`.

    ``lg p (alpha + n beta)``. Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations
    in MPICH", on all-reduce. If p is not a power of two, add two messages to the steps of the largest power of two
    below p.
    """
    p = _ranks(ranks)
    steps = p.bit_length() - 1
    sent = steps + 2 * (p != 1 << steps)
    return sent * alpha_s + size_bytes * (sent * beta_s_per_byte)


def halving_doubling(size_bytes, ranks, alpha_s, beta_s_per_byte):
    """Return the seconds of Rabenseifner's algorithm: recursive halving, then doubling; see `ring`.

    ``2 lg p alpha + 2 (p − 1)/p n beta``: as few bytes as a ring, in fewer messages (Thakur et al., ibid.). If p is not
    a power of two, see `recursive_doubling`.
    """
    p = _ranks(ranks)
    steps = p.bit_length() - 1
    odd = p != 1 << steps
    share = 1 - 1 / (1 << steps)
    return 2 * (steps + odd) * alpha_s + size_bytes * (2 * (share + odd) * beta_s_per_byte)


def tree(size_bytes, ranks, alpha_s, beta_s_per_byte):
    """Return the seconds of a binomial tree: a reduce to rank 0, then a broadcast; see `ring`.

    ``2 ⌈lg p⌉ (alpha + n beta)``, without pipelining (Thakur et al., ibid., on reduce and broadcast).
    """
    depth = (_ranks(ranks) - 1).bit_length()
    return depth * (2 * alpha_s + size_bytes * (2 * beta_s_per_byte))


ALGORITHMS = {
    "ring": ring,
    "recursive doubling": recursive_doubling,
    "halving and doubling": halving_doubling,
    "tree": tree,
}


def terms(algorithm: str, ranks: int):
    """Return an algorithm's messages in sequence, and its bytes sent per byte of data."""
    if algorithm not in ALGORITHMS:
        raise InputError(f"unknown algorithm {algorithm!r}; choose from: {', '.join(ALGORITHMS)}")
    seconds = ALGORITHMS[algorithm]
    return float(seconds(0, ranks, 1.0, 0.0)), float(seconds(1, ranks, 0.0, 1.0))


# ---------------------------------------------------------------- fitting


@dataclass(frozen=True)
class Fit(Link):
    """Alpha and beta fitted to measured times of ring all-reduces."""

    ranks: tuple[int, ...]  # per point
    size_bytes: tuple[float, ...]
    seconds: tuple[float, ...]
    operation_s: float | None = None  # per all-reduce, for any number of messages; None: not told apart from alpha

    def __call__(self, size_bytes, ranks=None):
        """Return the seconds of an all-reduce, by default on the measured number of ranks."""
        several = len(set(self.ranks)) > 1
        if ranks is None:
            if several:
                raise InputError("the points have several numbers of ranks: choose one with fit(size_bytes, ranks)")
            ranks = self.ranks[0]
        if ranks not in self.ranks and not several:
            raise InputError(
                f"all points have {self.ranks[0]} ranks, so it is unknown how much of the latency is per message "
                f"and how much per operation: to predict {ranks} ranks, also measure another number of ranks"
            )
        return (self.operation_s or 0.0) + ring(size_bytes, ranks, self.alpha_s, self.beta_s_per_byte)

    @property
    def residuals(self):
        """Relative error of each point: fitted over measured time, minus 1."""
        return tuple(
            float(self(size, ranks) / taken - 1)
            for size, ranks, taken in zip(self.size_bytes, self.ranks, self.seconds, strict=True)
        )

    @property
    def error(self):
        """Median of the absolute relative errors."""
        return float(numpy.median(numpy.abs(self.residuals)))

    def __str__(self):
        bandwidth = self.bandwidth_gb_per_s
        speed = "beta too small to see" if numpy.isinf(bandwidth) else f"{bandwidth:.3g} GB/s"
        once = "" if self.operation_s is None else f"{1e6 * self.operation_s:.3g} µs once, "
        return (
            f"ring: {once}alpha {1e6 * self.alpha_s:.3g} µs, {speed}; half of the "
            f"{len(self.seconds)} points within {self.error:.1%}"
        )


def fit(points, ranks) -> Fit:
    """Fit alpha and beta of a ring to measured all-reduces.

    Least squares of the relative errors, with nonnegative factors. With five points or more, the fit is repeated with
    the weights of Huber 1964, "Robust estimation of a location parameter", to limit the influence of outliers.

    `points` are (bytes of a rank's data, seconds); `ranks`, two or more, is the same for all points or a sequence. With
    only one number of ranks, all latency is attributed to messages. Several numbers distinguish between latency per
    message and per operation (``operation_s``).

    Raises InputError for fewer than two different sizes, or invalid points.
    """
    size_bytes, seconds = numpy.array(points, float).reshape(len(points), 2).T
    every = numpy.broadcast_to(numpy.asarray(ranks, int), len(points))
    if len(set(zip(size_bytes, every))) < 2:
        raise InputError(f"{len(points)} points: fitting latency and bandwidth needs two different sizes")
    if not (seconds > 0).all() or not (size_bytes >= 0).all() or not numpy.isfinite(seconds).all():
        raise InputError("points are (bytes, seconds): sizes must be >= 0 and times > 0")
    if (every < 2).any():
        raise InputError("one rank sends nothing: measure with two or more")
    counts = numpy.array([terms("ring", int(number)) for number in every])
    columns = counts * numpy.stack([numpy.ones(len(points)), size_bytes], axis=1)
    if len(set(every.tolist())) > 1:
        columns = numpy.column_stack([columns, numpy.ones(len(points))])
    weights = numpy.ones(len(points))
    for _ in range(REWEIGHT if len(points) >= ENOUGH else 1):
        factors = _relative(columns, seconds, weights)
        off = numpy.abs(columns @ factors / seconds - 1)
        typical = max(1.4826 * float(numpy.median(off)), 1e-9)  # estimate of the standard deviation
        weights = numpy.minimum(1, HUBER * typical / numpy.maximum(off, 1e-12))
    alpha, beta, *once = factors.tolist()
    return Fit(alpha, beta, *(tuple(column.tolist()) for column in (every, size_bytes, seconds)), *once)


ENOUGH = 5  # minimal number of points for detecting outliers
REWEIGHT = 50  # iterations; the weights converge much earlier
HUBER = 1.345  # Huber's constant, in standard deviations


def line(size_bytes: Sequence[float], seconds: Sequence[float]):
    """Fit ``seconds = alpha + beta × bytes`` by least squares of relative errors, both nonnegative."""
    columns = numpy.stack([numpy.ones(len(seconds)), numpy.asarray(size_bytes, float)], axis=1)
    return tuple(_relative(columns, numpy.asarray(seconds, float), 1.0).tolist())


def _relative(columns, seconds, weights):
    """Return the nonnegative factors whose weighted sum of columns best fits the seconds."""
    from scipy.optimize import nnls

    root = numpy.sqrt(weights) * numpy.ones(len(seconds))
    return nnls(columns * (root / seconds)[:, None], root)[0]


def crossing(sizes: Sequence[float], ratios: Sequence[float]) -> float:
    """Return the size at which a curve last falls below 1, on log axes; infinite if it ends above, else 0."""
    if ratios[-1] > 1:
        return math.inf
    for (size, ratio), (next_size, next_ratio) in reversed(list(pairwise(zip(sizes, ratios, strict=True)))):
        if ratio > 1 >= next_ratio:
            return size * (next_size / size) ** (math.log(ratio) / math.log(ratio / next_ratio))
    return 0.0
