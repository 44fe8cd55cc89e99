"""Gradient descent on a model of one weight, ``prediction = w * x``, which has closed forms for everything.

A data set is a sequence of points ``(x, y)``, and its loss is the mean squared error. One step with a batch is ``w - lr
* gradient``, a straight line in `w`:

    w  →  (1 - 2 lr mean(x²)) w + 2 lr mean(x y)

A pass over all batches is also a straight line, whose slope is the product of those factors. Training diverges
depending only on that product, which does not contain `y`.
"""

from dataclasses import dataclass

import numpy

from ddl.errors import InputError

EASY = ((1, 1), (2, 2), (3, 3), (4, 4))
NOISY = ((1, 0), (2, 1), (3, 1), (4, 6.25))


def _columns(data):
    points = numpy.asarray(data, float)
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise InputError(f"a data set needs one or more points (x, y), got {data!r}")
    return points.T


def generated(count: int, noise: float = 1.5, seed: int = 0):
    """Make points around the line ``y = x``, with x from 1 to 4: float, shape (count, 2); `noise` is y's standard
    deviation.
    """
    random = numpy.random.default_rng(seed)
    x = random.uniform(1, 4, count)
    return numpy.column_stack([x, x + noise * random.standard_normal(count)])


def batches_of(data, size):
    """Split a data set into batches of `size` points, in order; the last one may be smaller."""
    if size < 1:
        raise InputError(f"size must be at least 1, got {size}")
    return [data[first : first + size] for first in range(0, len(data), size)]


# ---------------------------------------------------------------- loss and gradient


def loss(w, data):
    """Return the mean squared error at the weight `w`, a number or an array of any shape."""
    x, y = _columns(data)
    return numpy.mean((y - numpy.multiply.outer(w, x)) ** 2, axis=-1)


def gradients(w, data):
    """Return the gradient of each point's squared error, an array with one number per point."""
    x, y = _columns(data)
    return 2 * x * (w * x - y)


def gradient(w, data):
    """Return the gradient of the mean squared error: the mean of the points' gradients."""
    return float(gradients(w, data).mean())


def best_weight(data):
    """Return the weight with the lowest loss, ``sum(x y) / sum(x²)``."""
    x, y = _columns(data)
    return float(x @ y / (x @ x))


# ---------------------------------------------------------------- training


def descend(w: float, lr: float, batches, iterations: int, gradient=gradient):
    """Train from the weight `w`, one batch per iteration, cycling through the batches.

    ``gradient(w, batch)`` may be a reader's own. Returns the weight before the first iteration and after each: float,
    shape (iterations + 1,).
    """
    weights = [float(w)]
    with numpy.errstate(over="ignore", invalid="ignore"):
        for iteration in range(iterations):
            batch = batches[iteration % len(batches)]
            weights.append(weights[-1] - lr * gradient(weights[-1], batch))
    return numpy.array(weights)


def pass_factor(lr, batches):
    """Return the factor by which a pass over all batches multiplies the distance from its fixed point.

    The product of ``1 - 2 lr mean(x²)`` over the batches. Training diverges if its absolute value is above 1.
    """
    return float(numpy.prod([1 - 2 * lr * numpy.mean(x * x) for x, _ in map(_columns, batches)]))


def rate_limit(data):
    """Return the learning rate above which training on the whole data set diverges: 1 / mean(x²).

    Half of it reaches the best weight in one step.
    """
    x, _ = _columns(data)
    return float(1 / numpy.mean(x * x))


# ---------------------------------------------------------------- noise


def batch_gradients(w: float, data, size: int, draws: int, seed: int = 0, replace: bool = True):
    """Return the gradients of `draws` randomly drawn batches of `size` points: float, shape (draws,).

    Their standard deviation is ``s / sqrt(size)``, with `s` that of the points' gradients; without replacement it is
    smaller by ``sqrt((n - size) / (n - 1))``, and a batch has at most all n points.
    """
    each = gradients(w, data)
    random = numpy.random.default_rng(seed)
    if replace:
        return random.choice(each, (draws, size)).mean(axis=1)
    if size > len(each):
        raise InputError(f"a batch of {size} cannot be drawn from {len(each)} points without replacement")
    shuffled = random.permuted(numpy.tile(each, (draws, 1)), axis=1)
    return shuffled[:, :size].mean(axis=1)


def noise_scale(w, data):
    """Return the gradient noise scale: the points' variance over the squared gradient.

    McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", equation 2.9. It is exact here: with one
    weight the curvature cancels.
    """
    each = gradients(w, data)
    return float(each.var() / each.mean() ** 2)


def best_rate(w: float, data, size: int, draws: int = 20_000, seed: int = 0) -> float:
    """Return the learning rate whose single step from `w` lowers the mean loss over `draws` random batches most.

    One of 401 rates from 0 to `rate_limit`. Equation 2.6 of McCandlish et al. 2018 predicts ``(rate_limit / 2) / (1 +
    noise_scale / size)``.
    """
    steps = batch_gradients(w, data, size, draws, seed)
    rates = numpy.linspace(0, rate_limit(data), 401)
    # The loss is a parabola around the best weight, so minimize the squared distance.
    away = w - best_weight(data)
    distances = away**2 - 2 * away * rates * steps.mean() + rates**2 * numpy.mean(steps**2)
    return float(rates[numpy.argmin(distances)])


# ---------------------------------------------------------------- several workers


@dataclass(frozen=True)
class Exchange:
    """One step of data-parallel training."""

    w: float  # the weight before the step, the same on all workers
    gradients: tuple  # of each worker
    average: float  # their mean: workers have equal weights, as in Horovod
    after: float  # the weight after the step, again the same on all workers


def exchange(w: float, lr: float, batches, gradient=gradient) -> Exchange:
    """Take one data-parallel step: each worker computes the gradient of a batch, and the average is applied."""
    worker_gradients = tuple(gradient(w, batch) for batch in batches)
    average = sum(worker_gradients) / len(worker_gradients)
    return Exchange(w, worker_gradients, average, w - lr * average)
