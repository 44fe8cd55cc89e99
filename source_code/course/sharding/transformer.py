"""A small transformer that adds numbers, as a list of layers that the lesson's scripts run one by one.

It reads text such as ``37+48=85`` character by character. A layer is attention or a multilayer perceptron, whose result
is added to its input (Vaswani et al. 2017, with the norm before the layer and without biases or gains, so that all
weights are matrices). Weights are arguments of a layer, so the caller decides where they are stored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from course.sharding.sums import CHARACTERS

MASKED = -1e9


@dataclass(frozen=True)
class Layer:
    """A layer: the shapes of its matrices, and its function of input and matrices."""

    name: str
    shapes: tuple[tuple[int, int], ...]
    function: Callable
    residual: bool = True


def layers(width: int, depth: int, heads: int, length: int, ranks: int = 1) -> list[Layer]:
    """Return the network's layers; with `ranks`, one rank's part of each in tensor parallelism.

    A rank then has `heads` / `ranks` heads of each attention and the same share of each perceptron's hidden units. The
    sum of the results over ranks is the layer's; embedding and output are replicated.
    """
    part = width // ranks
    attend = (
        (width, 3 * part), (part, width)
    ), tf.function(lambda x, qkv, out: attention(x, qkv, out, heads // ranks), autograph=False)  # fmt: skip
    think = ((width, 4 * part), (4 * part, width)), tf.function(perceptron, autograph=False)
    blocks = [
        Layer(f"{name} {number}", *of)
        for number in range(1, depth + 1)
        for name, of in (("attention", attend), ("perceptron", think))
    ]
    symbols = len(CHARACTERS)
    first = Layer("embedding", ((symbols, width), (length, width)), tf.function(embed, autograph=False), False)
    last = Layer("output", ((width, symbols),), tf.function(output, autograph=False), False)
    return [first, *blocks, last]


def part_of(layer: Layer, weights: list[np.ndarray], rank: int, ranks: int) -> list[np.ndarray]:
    """Return a rank's part of a whole layer's weights in tensor parallelism, as `layers` shapes it."""
    if not layer.residual or ranks == 1:
        return weights
    first, second = weights
    if layer.name.startswith("attention"):  # a part of the heads, for queries, keys and values
        columns = np.concatenate([np.array_split(part, ranks, 1)[rank] for part in np.array_split(first, 3, 1)], 1)
    else:
        columns = np.array_split(first, ranks, 1)[rank]
    return [np.ascontiguousarray(columns), np.array_split(second, ranks, 0)[rank]]


# ---------------------------------------------------------------- layers


def embed(tokens, table, positions):
    """Embed each character and its position: float32 ``[batch, length, width]``."""
    return product(tf.one_hot(tokens, table.shape[0]), table) + positions


def attention(x, qkv, out, heads):
    """Return causal self-attention; input and result are float32 ``[batch, length, width]``."""
    batch, length, _ = x.shape
    y = tf.reshape(product(normed(x), qkv), [batch, length, 3, heads, -1])
    query, key, value = tf.unstack(tf.transpose(y, [2, 0, 3, 1, 4]))
    scores = tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)  # [batch, heads, length, length]
    before = tf.linalg.band_part(tf.ones([length, length], tf.bool), -1, 0)
    shares = tf.nn.softmax(tf.where(before, scores, MASKED))
    taken = tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3])
    return product(tf.reshape(taken, [batch, length, -1]), out)


def perceptron(x, first, second):
    """Return the output of a multilayer perceptron at each position: float32 ``[batch, length, width]``."""
    return product(tf.nn.relu(product(normed(x), first)), second)


def output(x, targets, table):
    """Return the mean loss of the predicted next characters."""
    logits = product(normed(x), table)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits))


def normed(x):
    """Return vectors of root mean square 1 (Zhang and Sennrich 2019, without a gain)."""
    return x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6)


def product(x, matrix):
    """Return x @ matrix for x of more than two dimensions, as one product of matrices."""
    return tf.reshape(tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), matrix), [*x.shape[:-1], matrix.shape[-1]])


# ---------------------------------------------------------------- forward and backward, by layer


class Record(NamedTuple):
    """The activations of a layer: its tape, input, weights and result."""

    tape: tf.GradientTape
    x: tf.Tensor
    weights: list
    result: tf.Tensor


def record(layer: Layer, x, weights: list, *targets) -> Record:
    """Run a layer and keep the tensors for its gradients, the activations."""
    with tf.GradientTape() as tape:
        tape.watch([x, *weights] if x.dtype.is_floating else weights)
        return Record(tape, x, weights, layer.function(x, *targets, *weights))


def gradients(record: Record, back=None) -> tuple:
    """Return the gradients of a layer's input (None for characters) and a list for its weights.

    `back` is the gradient of its result; None for a loss.
    """
    if not record.x.dtype.is_floating:
        return None, record.tape.gradient(record.result, record.weights, back)
    of_input, *of_weights = record.tape.gradient(record.result, [record.x, *record.weights], back)
    return of_input, of_weights
