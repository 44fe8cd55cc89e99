"""Gradient descent on a model of one weight, ``prediction = m * x``, where all can be computed.

A data set is a sequence of points ``(x, y)``, and its loss is the mean squared error. One step
with the points of a batch is ``m - lr * gradient``, a straight line in `m`:

    m  →  (1 - 2 lr mean(x²)) m + 2 lr mean(x y)

So is a pass over all batches, with the product of those factors as its slope. Whether training
diverges depends on that product alone, which contains no `y`; where it settles is the line's
fixed point, which does.
"""

from dataclasses import dataclass

import numpy

from ddl.errors import InputError

__all__ = [
    "EASY",
    "NOISY",
    "Exchange",
    "batch_gradients",
    "batches_of",
    "best_rate",
    "best_weight",
    "cycle",
    "descend",
    "exchange",
    "generated",
    "gradient",
    "gradients",
    "loss",
    "noise_scale",
    "outcome",
    "pass_factor",
    "rate_limit",
]

EASY = ((1, 1), (2, 2), (3, 3), (4, 4))
NOISY = ((1, 0), (2, 1), (3, 1), (4, 6.25))

NEAR = 0.05  # so far from the best weight still counts as converged


def _columns(data):
    """The x and the y of a data set, as two float arrays."""
    points = numpy.asarray(data, float)
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise InputError(f"a data set is one or more points (x, y), not {data!r}")
    return points.T


def generated(count, noise=1.5, seed=0):
    """Make points around the line ``y = x``.

    Parameters
    ----------
    count : int
    noise : float
        Standard deviation of `y` around the line.
    seed : int

    Returns
    -------
    ndarray of float, shape (count, 2)
        `x` lies between 1 and 4.
    """
    random = numpy.random.default_rng(seed)
    x = random.uniform(1, 4, count)
    return numpy.column_stack([x, x + noise * random.standard_normal(count)])


def batches_of(data, size):
    """Cut a data set into batches of `size` points, in order; the last one may be smaller."""
    if size < 1:
        raise InputError(f"a batch has at least one point, not {size}")
    return [data[first : first + size] for first in range(0, len(data), size)]


# ---------------------------------------------------------------- loss and gradient


def loss(m, data):
    """Return the mean squared error at the weight `m`, a number or an array of any shape."""
    x, y = _columns(data)
    return numpy.mean((y - numpy.multiply.outer(m, x)) ** 2, axis=-1)


def gradients(m, data):
    """Return the gradient of each point's squared error, an array of one number a point."""
    x, y = _columns(data)
    return 2 * x * (m * x - y)


def gradient(m, data):
    """Return the gradient of the mean squared error: the mean of the points' gradients."""
    return float(gradients(m, data).mean())


def best_weight(data):
    """Return the weight with the lowest loss, ``sum(x y) / sum(x²)``."""
    x, y = _columns(data)
    return float(x @ y / (x @ x))


# ---------------------------------------------------------------- training


def descend(m, lr, batches, iterations):
    """Train, a batch an iteration, from the first again after the last.

    Parameters
    ----------
    m : float
        The weight to begin with.
    lr : float
    batches : sequence of data sets
    iterations : int

    Returns
    -------
    ndarray of float, shape (iterations + 1,)
        The weight before the first iteration and after each. A training that diverges ends in
        infinities or NaN.
    """
    weights = [float(m)]
    with numpy.errstate(over="ignore", invalid="ignore"):
        for iteration in range(iterations):
            batch = batches[iteration % len(batches)]
            weights.append(weights[-1] - lr * gradient(weights[-1], batch))
    return numpy.array(weights)


def _lines(lr, batches):
    """Slope and offset of each batch's step, which is a straight line in the weight."""
    means = [(numpy.mean(x * x), numpy.mean(x * y)) for x, y in map(_columns, batches)]
    return [(1 - 2 * lr * xx, 2 * lr * xy) for xx, xy in means]


def pass_factor(lr, batches):
    """Return what a pass over all batches multiplies the distance from its fixed point by.

    The product of ``1 - 2 lr mean(x²)`` over the batches. Training diverges where its absolute
    value is over 1.
    """
    return float(numpy.prod([slope for slope, _ in _lines(lr, batches)]))


def cycle(lr, batches):
    """Return the weights that training settles on.

    Returns
    -------
    ndarray of float, shape (len(batches),)
        The weight after each batch of a pass, the same in every pass: a limit cycle. Where
        training diverges this is the cycle that it runs away from. NaN where there is none,
        because a pass neither shrinks nor grows (``pass_factor`` is 1).
    """
    lines = _lines(lr, batches)
    slope, offset = 1.0, 0.0
    for a, b in lines:
        slope, offset = a * slope, a * offset + b
    m = offset / (1 - slope) if slope != 1 else numpy.nan
    weights = []
    for a, b in lines:
        m = a * m + b
        weights.append(m)
    return numpy.array(weights)


def outcome(lr, batches, near=NEAR):
    """Say where training ends: "converges", "settles aside" or "diverges".

    It converges where no weight of its limit cycle is farther than `near` from the best one.
    """
    if not abs(pass_factor(lr, batches)) < 1:
        return "diverges"
    best = best_weight(numpy.concatenate([numpy.asarray(batch, float) for batch in batches]))
    return "converges" if abs(cycle(lr, batches) - best).max() <= near else "settles aside"


def rate_limit(data):
    """Return the learning rate from which training on the whole data set diverges: 1 / mean(x²).

    Half of it reaches the best weight in one step.
    """
    x, _ = _columns(data)
    return float(1 / numpy.mean(x * x))


# ---------------------------------------------------------------- noise


def batch_gradients(m, data, size, draws, seed=0, replace=True):
    """Return the gradients of randomly drawn batches.

    Parameters
    ----------
    m : float
    data : sequence of points
    size : int
        Points in a batch; without replacement not more than there are.
    draws : int
        Number of batches.
    seed : int
    replace : bool
        Whether a point can be in a batch twice.

    Returns
    -------
    ndarray of float, shape (draws,)
        Their standard deviation is ``s / sqrt(size)``, with `s` that of the points' gradients;
        without replacement it is smaller by ``sqrt((n - size) / (n - 1))``.
    """
    each = gradients(m, data)
    random = numpy.random.default_rng(seed)
    if replace:
        return random.choice(each, (draws, size)).mean(axis=1)
    if size > len(each):
        raise InputError(f"a batch of {size} cannot be drawn from {len(each)} points without replacement")
    shuffled = random.permuted(numpy.tile(each, (draws, 1)), axis=1)
    return shuffled[:, :size].mean(axis=1)


def noise_scale(m, data):
    """Return the gradient noise scale: the points' variance over the squared gradient.

    McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", equation 2.9. With one
    weight, as here, the curvature cancels, and it is exact.
    """
    each = gradients(m, data)
    return float(each.var() / each.mean() ** 2)


def best_rate(m, data, size, draws=20_000, seed=0):
    """Return the learning rate whose one step from `m` lowers the loss most, on average: tried.

    Parameters
    ----------
    m : float
    data : sequence of points
    size : int
        Points in a batch, drawn with replacement.
    draws : int
        Batches for the average.
    seed : int

    Returns
    -------
    float
        One of 401 rates from 0 to `rate_limit`. Equation 2.6 of McCandlish et al. 2018 says
        ``(rate_limit / 2) / (1 + noise_scale / size)``.
    """
    steps = batch_gradients(m, data, size, draws, seed)
    rates = numpy.linspace(0, rate_limit(data), 401)
    # The loss is a parabola around the best weight: least where the squared distance to it is.
    away = m - best_weight(data)
    distances = away**2 - 2 * away * rates * steps.mean() + rates**2 * numpy.mean(steps**2)
    return float(rates[numpy.argmin(distances)])


# ---------------------------------------------------------------- several workers


@dataclass(frozen=True)
class Exchange:
    """One step of data-parallel training.

    Attributes
    ----------
    m : float
        The weight before the step, the same on all workers.
    gradients : tuple of float
        Each worker's own.
    average : float
        Their mean: every worker counts the same, as in Horovod.
    after : float
        The weight after the step, again the same on all workers.
    """

    m: float
    gradients: tuple
    average: float
    after: float


def exchange(m, lr, batches):
    """Let one worker for each batch compute its gradient, average them, and take the step.

    Parameters
    ----------
    m, lr : float
    batches : sequence of data sets
        One for each worker.

    Returns
    -------
    Exchange
    """
    own = tuple(gradient(m, batch) for batch in batches)
    average = sum(own) / len(own)
    return Exchange(m, own, average, m - lr * average)
