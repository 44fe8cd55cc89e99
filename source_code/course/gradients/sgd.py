"""Exact mean behavior of training one weight on random batches, from two moments.

The model, its loss and its data sets are those of `descent`. Each step draws a batch of `size` points at
random, with replacement. It multiplies the distance d from the best weight by ``1 - 2 lr h`` and adds ``2 lr c``, where
h is the batch's mean of x² and c its mean of ``x (y - best x)``, which is 0 on average. With H, the mean of x² over all
points, the expectations of d and of d² follow from those before the step:

    E[d]   →  (1 - 2 lr H) E[d]
    E[d²]  →  ((1 - 2 lr H)² + 4 lr² var(x²) / size) E[d²]  -  8 lr² cov / size · E[d]  +  4 lr² noise / size

`noise` is the variance of ``x (y - best x)`` over the points, and cov its covariance with x². The loss is on average
``H E[d²]`` above the minimum.
"""

import numpy

from course.gradients import descent
from ddl.errors import InputError

MOST = 1000  # limit of `steps_to`


class _Moments:
    """Moments of a data set, with the names used in the module's docstring."""

    def __init__(self, data):
        x, y = numpy.asarray(data, float).T
        self.best = descent.best_weight(data)
        pull = x * (y - self.best * x)
        self.curvature, self.uneven = numpy.mean(x * x), numpy.var(x * x)
        self.noise, self.cov = numpy.var(pull), numpy.mean(x * x * pull)

    def shrinks(self, lr, size):
        """Return the factors of E[d] and of E[d²] in a step."""
        one = 1 - 2 * lr * self.curvature
        return one, one**2 + 4 * lr**2 * self.uneven / size


def _batch(size):
    if size < 1:
        raise InputError(f"size must be at least 1, got {size}")
    return size


def rate_border(size: float, data) -> float:
    """Return the learning rate above which the mean squared distance diverges.

    ``H / (H² + var(x²) / size)``; for a size of infinity ``1 / H``, the limit for all points together. A single
    training may still converge at slightly higher rates, because rare excursions dominate the mean.
    """
    it = _Moments(data)
    return float(it.curvature / (it.curvature**2 + it.uneven / _batch(size)))


def settled_spread(lr, size: float, data):
    """Return the standard deviation at which the weight settles, infinite if it diverges: float, of the shape of `lr`.

    At low rates, its square is nearly ``lr / size · noise / H``: only the ratio of rate and batch size matters, as in
    Mandt, Hoffman and Blei 2017, "Stochastic Gradient Descent as Approximate Bayesian Inference", section 3.
    """
    it, lr = _Moments(data), numpy.asarray(lr, float)
    _, shrink = it.shrinks(lr, _batch(size))
    with numpy.errstate(divide="ignore", invalid="ignore"):
        variance = 4 * lr**2 * it.noise / size / (1 - shrink)
    return numpy.sqrt(numpy.where((shrink < 1) & (lr > 0), variance, numpy.where(lr > 0, numpy.inf, 0.0)))[()]


def rate_of_spread(spread: float, size: float, data) -> float:
    """Return the learning rate with that standard deviation, the inverse of `settled_spread`."""
    it = _Moments(data)
    variance = spread**2
    return float(variance * it.curvature / (it.noise / _batch(size) + variance * (it.curvature**2 + it.uneven / size)))


def excess_losses(w: float, lr, size: float, data, steps: int):
    """Return the mean loss above the minimum, at the weight `w` and after each step.

    The result is float, of shape (steps + 1,) plus `lr`'s shape, and infinite if training diverges.
    """
    it, lr = _Moments(data), numpy.asarray(lr, float)
    one, two = it.shrinks(lr, _batch(size))
    mean, square = (w - it.best) * numpy.ones_like(lr), (w - it.best) ** 2 * numpy.ones_like(lr)
    losses = [it.curvature * square]
    with numpy.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            square = two * square + 4 * lr**2 / size * (it.noise - 2 * it.cov * mean)
            mean = one * mean
            losses.append(it.curvature * square)
    return numpy.array(losses)


def steps_to(target: float, w: float, lr, size: float, data):
    """Return the number of steps from `w` until the mean loss is at most `target` above the minimum.

    The result is a float, or an array like `lr`; infinite if more than `MOST` steps.
    """
    reached = excess_losses(w, lr, size, data, MOST) <= target
    return numpy.where(reached.any(axis=0), reached.argmax(axis=0), numpy.inf)[()]
