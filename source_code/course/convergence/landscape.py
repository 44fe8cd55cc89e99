"""The loss around a network's weights: its curvature, and the noise of its gradient.

A point is the concatenated vector of all trainable weights, in the order of `model.trainable_variables`. The loss is
the mean over fixed batches, and batch norm uses one batch at a time, as in training, so the loss does not depend on the
scale of a kernel in front of a norm.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from course.training.recipes import SettingError

MOST_GROUPS = 20  # of batches, for standard errors
GRADIENT, PRODUCT = 3, 11  # cost in forward passes, with the course's CNN


class Landscape:
    """The loss of a model as a function of its trainable weights, in float32.

    The ranks divide the batches and sum over ranks, so every rank has all results. The model keeps its weights, but its
    batch norms stop updating their moving statistics.

    The `model` maps inputs to logits. The `batches`, all of one size, are pairs of inputs and labels, float32 ``[batch,
    …]`` and integers ``[batch]``; every rank gets all of them and reads only its own. `total` returns the sum of an
    array over all ranks, and `worked` is called after each batch with its cost in forward passes per image.
    """

    def __init__(
        self,
        model: tf.keras.Model,
        batches: Sequence[tuple],
        rank: int = 0,
        ranks: int = 1,
        total: Callable[[np.ndarray], np.ndarray] = lambda array: array,
        worked: Callable[[int], object] = lambda passes: None,
    ):
        self.model, self.batches, self._total, self._worked = model, batches, total, worked
        self.mine = range(rank, len(batches), ranks)
        self._variables = model.trainable_variables
        for layer in model.layers:
            if isinstance(layer, tf.keras.layers.BatchNormalization):
                layer.momentum = 1.0  # don't update the statistics
        self._loss, self._gradient, self._product = (
            tf.function(each, autograph=False) for each in (self._mean, self._slope, self._hessian_vector)
        )

    @property
    def weights(self) -> np.ndarray:
        """The model's current point, float64 ``[weights]``."""
        return _flat(variable.numpy() for variable in self._variables)

    def move(self, point: np.ndarray):
        """Set the model's weights."""
        for variable, value in zip(self._variables, self._parts(point), strict=True):
            variable.assign(value)

    def _parts(self, vector):
        """Split a vector into arrays of the weights' shapes."""
        sizes = [variable.shape.num_elements() for variable in self._variables]
        parts = np.split(np.asarray(vector, np.float32), np.cumsum(sizes)[:-1])
        return [part.reshape(variable.shape) for part, variable in zip(parts, self._variables, strict=True)]

    def loss(self, point: np.ndarray | None = None) -> float:
        """Return the loss at the model's current point, or at a given point."""
        if point is not None:
            start = self.weights
            self.move(point)
            loss = self.loss()
            self.move(start)
            return loss
        return float(self._average(sum(float(self._on(self._loss, 1, index)) for index in self.mine)))

    def gradient(self) -> np.ndarray:
        """Return the gradient at the model's current point, float64 ``[weights]``."""
        return self._average(self._sum(map(self.gradient_of, self.mine)))

    def gradient_of(self, index: int) -> np.ndarray:
        """Return the gradient of one batch's mean loss, on this rank only, float64 ``[weights]``."""
        return _flat(self._on(self._gradient, GRADIENT, index))

    def hessian(self, vector: np.ndarray) -> np.ndarray:
        """Return the Hessian's product with a vector, float64 ``[weights]`` (Pearlmutter 1994).

        The gradient of ``gradient · vector``, with the vector as a constant. On a processor reverse over reverse takes
        as long as forward over reverse or a little less: 3.6 gradients with the course's CNN.
        """
        parts = self._parts(vector)
        return self._average(self._sum(_flat(self._on(self._product, PRODUCT, index, *parts)) for index in self.mine))

    def adaptive(self, vector: np.ndarray) -> np.ndarray:
        """Return the product of D H D with a vector, where D is the diagonal of `filter_norms`."""
        norms = filter_norms(self.model)
        return norms * self.hessian(norms * vector)

    def noise(self, population: int | None = None) -> dict:
        """Return the gradient noise scale S / |G|², in samples, and its two parts, each with a standard error.

        With n gradients of B samples, ``S = B Σ|G_i − Ḡ|² / (n − 1)`` is unbiased for the summed variance of one
        sample's gradient, and ``|Ḡ|² − S (1 / nB − 1 / population)`` for the true gradient's square (McCandlish et al.
        2018, section 2.2 and appendix A.1). Standard errors come from a jackknife over groups of batches (Efron 1982),
        at least two groups of two. The batches are drawn without replacement from `population` samples, or from
        infinitely many if None. The scale is None if |G|² is not positive.
        """
        count = len(self.batches)
        groups = min(MOST_GROUPS, count // 2)
        if groups < 2:
            raise SettingError(f"the noise scale needs gradients of at least 4 batches, got {count}")
        samples = len(self.batches[0][1])
        sums, squares = np.zeros((groups, self.weights.size)), np.zeros(groups)
        for index in self.mine:
            gradient = self.gradient_of(index)
            sums[index % groups] += gradient
            squares[index % groups] += gradient @ gradient
        sums, squares = self._total(sums), self._total(squares)
        counts = np.array([len(range(group, count, groups)) for group in range(groups)])

        def parts(total, square, n):
            mean_sq = float(total @ total) / n**2
            variance = samples * (square - n * mean_sq) / (n - 1)
            gradient_sq = mean_sq - variance * (1 / (n * samples) - (1 / population if population else 0.0))
            return variance / gradient_sq if gradient_sq else math.inf, gradient_sq, variance

        total, square = sums.sum(axis=0), squares.sum()
        whole = parts(total, square, count)
        without = [parts(total - sums[k], square - squares[k], count - counts[k]) for k in range(groups)]
        errors = np.sqrt((groups - 1) * np.var(without, axis=0))
        found = {"ghost_batch": samples, "ghost_batches": count}
        for name, mean, error in zip(("noise_scale", "gradient_sq", "variance"), whole, errors, strict=True):
            found |= {name: float(mean), f"{name}_error": float(error)}
        if found["gradient_sq"] <= 0:
            found |= {"noise_scale": None, "noise_scale_error": None}
        return found

    # ------------------------------------------------------------ in the graph, and over ranks

    def _mean(self, inputs, labels):
        logits = self.model(inputs, training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def _slope(self, inputs, labels):
        with tf.GradientTape() as tape:
            loss = self._mean(inputs, labels)
        return tape.gradient(loss, self._variables)

    def _hessian_vector(self, inputs, labels, *vector):
        with tf.GradientTape() as tape:
            gradient = self._slope(inputs, labels)
        zero = tf.UnconnectedGradients.ZERO  # for a weight in which the loss is linear
        return tape.gradient(gradient, self._variables, output_gradients=list(vector), unconnected_gradients=zero)

    def _on(self, function, passes, index, *vector):
        inputs, labels = self.batches[index]
        found = function(inputs, labels, *vector)
        self._worked(passes * len(labels))
        return found

    def _sum(self, vectors):
        return sum(vectors, np.zeros(self.weights.size))

    def _average(self, ours):
        return self._total(np.asarray(ours, np.float64)) / len(self.batches)


def _flat(arrays):
    return np.concatenate([np.ravel(array) for array in arrays]).astype(np.float64)


# ---------------------------------------------------------------- directions


def filter_norms(model: tf.keras.Model) -> np.ndarray:
    """Return for each trainable weight the norm of its filter, float64 ``[weights]``.

    A filter produces one output: all axes of a kernel but the last. A bias, or a norm's scale or shift, is its own
    filter, whose norm is its absolute value (Kwon et al. 2021, "ASAM").

    With D the diagonal of these, D H D is the curvature by *relative* change. Its eigenvalues are invariant when
    rescaling whole filters does not change the function; H's are not (Dinh et al. 2017). It uses filters rather than
    single weights, |w|, because a norm undoes that rescaling.
    """
    found = []
    for variable in model.trainable_variables:
        array = variable.numpy().astype(np.float64)
        axes = tuple(range(array.ndim - 1))  # a single weight has no other axes
        norms = np.sqrt(np.sum(array**2, axis=axes, keepdims=True))
        found.append(np.broadcast_to(norms, array.shape))
    return _flat(found)


def rescaling(model: tf.keras.Model, alpha: float) -> np.ndarray:
    """Return factors for all trainable weights that do not change the function, float64 ``[weights]``.

    Before a norm, every kernel times `alpha`: the norm divides by it. Without norms, the first layer's kernel and bias
    times `alpha` and the second's kernel divided by it: ReLU and max-pooling let a positive factor pass (Dinh et al.
    2017, "Sharp Minima Can Generalize For Deep Nets", sections 3 and 4). A block of the Hessian between weights that
    are multiplied by a and by b is divided by a b.

    Raises SettingError if `alpha` is not positive, or if a network without norms has merging paths.
    """
    if alpha <= 0:
        raise SettingError(f"a rescaling by {alpha:g} changes the function: the factor must be positive")
    layers = tf.keras.layers
    with_kernel = [layer for layer in model.layers if isinstance(layer, (layers.Conv2D, layers.Dense))]
    factors = {}
    if any(isinstance(layer, (layers.BatchNormalization, layers.GroupNormalization)) for layer in model.layers):
        factors.update({layer.kernel.ref(): alpha for layer in with_kernel if not layer.use_bias})
    elif any(isinstance(layer, layers.Add) for layer in model.layers):
        raise SettingError(f"the network {model.name!r} has no norm and merging paths: it cannot be rescaled")
    else:
        first, second = with_kernel[:2]
        factors.update({weight.ref(): alpha for weight in first.trainable_variables})
        factors[second.kernel.ref()] = 1 / alpha
    return _flat(np.full(variable.shape, factors.get(variable.ref(), 1.0)) for variable in model.trainable_variables)
