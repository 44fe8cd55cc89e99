"""A small transformer that adds numbers, as a list of layers that the lesson's scripts run one by one.

It reads text such as ``37+48=85`` character by character. A layer is attention or a multilayer perceptron, whose result
is added to its input (Vaswani et al. 2017, with the norm before the layer and without biases or gains, so that all
weights are matrices). Weights are arguments of a layer, so the caller decides where they are stored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from course.sharding.sequence import Sequence, product
from course.sharding.sums import CHARACTERS, initial

MASKED = -1e9


@dataclass(frozen=True)
class Layer:
    """A layer: its number, the shapes of its matrices, and its function of input and matrices.

    In tensor parallelism, `shard` is the rank and the number of ranks that split it: the first matrix by columns, the
    second one by rows.
    """

    name: str
    number: int
    shapes: tuple[tuple[int, int], ...]
    function: Callable
    residual: bool = True
    shard: tuple[int, int] = (0, 1)

    def initial(self, seed: int) -> list[np.ndarray]:
        """Return the initial weights: this rank's shards of the unsplit layer's weights."""
        rank, ranks = self.shard
        if not self.residual or ranks == 1:
            return initial(self.shapes, self.number, seed)
        (width, columns), (rows, _) = self.shapes
        first, second = initial(((width, ranks * columns), (ranks * rows, width)), self.number, seed)
        thirds = np.split(first, 3 if self.name.startswith("attention") else 1, 1)  # queries, keys and values
        own = np.concatenate([np.split(third, ranks, 1)[rank] for third in thirds], 1)
        return [np.ascontiguousarray(own), np.split(second, ranks)[rank]]


def layers(
    width: int, depth: int, heads: int, length: int, shard: tuple[int, int] = (0, 1), sequence: Sequence | None = None
) -> list[Layer]:
    """Return the network's layers; with `shard`, a rank and the number of ranks, the rank's shard of each.

    A rank then has its share of the heads of each attention and of each perceptron's hidden units. The sum of the
    results over ranks is the layer's; embedding and output are replicated. With `sequence`, input and result have this
    rank's positions only, and the layers communicate.
    """
    own, symbols = width // shard[1], len(CHARACTERS)
    enter, leave, split, join = product, product, tf.identity, tf.identity
    if sequence:
        enter, leave, split, join = sequence.enter, sequence.leave, sequence.split, sequence.join
    compiled = partial(tf.function, autograph=False)
    attend = compiled(lambda x, qkv, out: attention(x, qkv, out, heads // shard[1], enter, leave))
    think = compiled(lambda x, first, second: perceptron(x, first, second, enter, leave))
    kinds = (
        ("attention", ((width, 3 * own), (own, width)), attend),
        ("perceptron", ((width, 4 * own), (4 * own, width)), think),
    )
    blocks = [
        Layer(f"{name} {block + 1}", 2 * block + place, shapes, function, shard=shard)
        for block in range(depth)
        for place, (name, shapes, function) in enumerate(kinds, 1)
    ]
    first = compiled(lambda tokens, *tables: split(embed(tokens, *tables)))
    last = compiled(lambda x, targets, table: output(join(x), targets, table))
    return [
        Layer("embedding", 0, ((symbols, width), (length, width)), first, residual=False),
        *blocks,
        Layer("output", 2 * depth + 1, ((width, symbols),), last, residual=False),
    ]


# ---------------------------------------------------------------- layers


def embed(tokens, table, positions):
    """Embed each character and its position: float32 ``[batch, length, width]``."""
    return product(tf.one_hot(tokens, table.shape[0]), table) + positions


def attention(x, qkv, out, heads, enter=product, leave=product):
    """Return causal self-attention; input and result are float32 ``[batch, length, width]``."""
    y = enter(normed(x), qkv)
    batch, length, _ = y.shape
    query, key, value = tf.unstack(tf.transpose(tf.reshape(y, [batch, length, 3, heads, -1]), [2, 0, 3, 1, 4]))
    scores = tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)  # [batch, heads, length, length]
    before = tf.linalg.band_part(tf.ones([length, length], tf.bool), -1, 0)
    shares = tf.nn.softmax(tf.where(before, scores, MASKED))
    taken = tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3])
    return leave(tf.reshape(taken, [batch, length, -1]), out)


def perceptron(x, first, second, enter=product, leave=product):
    """Return the output of a multilayer perceptron at each position: float32 ``[batch, length, width]``."""
    return leave(tf.nn.relu(enter(normed(x), first)), second)


def output(x, targets, table):
    """Return the mean loss of the predicted next characters."""
    logits = product(normed(x), table)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits))


def normed(x):
    """Return vectors of root mean square 1 (Zhang and Sennrich 2019, without a gain)."""
    return x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6)


# ---------------------------------------------------------------- forward and backward, by layer


class Record(NamedTuple):
    """The activations of a layer: its tape, input, weights and result."""

    tape: tf.GradientTape
    x: tf.Tensor
    weights: list
    result: tf.Tensor


class Chain:
    """Layers that a rank runs one after the other, with the weights of a store.

    With `recompute`, only each layer's input is kept for the backward pass. `merge` turns what a layer has computed
    into its result: the sum over ranks in tensor parallelism. `note` is called before the loss is computed.
    """

    def __init__(self, layers, store, recompute=False, merge=tf.identity, note=lambda: None):
        self._layers, self._store, self._recompute = layers, store, recompute
        self._merge, self._note = merge, note

    def forward(self, x, targets) -> tuple[list, tf.Tensor]:
        """Return what is kept of each layer, and the result: the mean loss, if the last layer is the output."""
        kept = []
        for number, layer in enumerate(self._layers):
            if layer.name == "output":
                self._note()
                kept.append(self._record(number, x, targets))
                return kept, kept[-1].result
            if self._recompute:
                kept.append(x)
                through = layer.function(x, *self._store.weights(number))
            else:
                kept.append(self._record(number, x))
                through = kept[-1].result
            x = self._added(layer, x, through)
        return kept, x

    def backward(self, kept: list, back=None):
        """Add the weights' gradients to the store and return the input's (None for characters).

        `back` is the result's gradient. What is `kept` is freed on the way.
        """
        for number, layer in reversed(list(enumerate(self._layers))):
            of = kept.pop()
            of = of if isinstance(of, Record) else self._record(number, of)
            through, of_weights = gradients(of, back)
            del of
            self._store.add(number, of_weights)
            back = self._added(layer, back, through)
        return back

    def _record(self, number, x, *targets):
        """Run a layer and keep the tensors for its gradients, the activations."""
        weights = self._store.weights(number)
        with tf.GradientTape() as tape:
            tape.watch([x, *weights] if x.dtype.is_floating else weights)
            return Record(tape, x, weights, self._layers[number].function(x, *targets, *weights))

    def _added(self, layer, around, through):
        return around + self._merge(through) if layer.residual else through


def gradients(record: Record, back) -> tuple:
    """Return the gradients of a layer's input (None for characters) and a list for its weights."""
    if not record.x.dtype.is_floating:
        return None, record.tape.gradient(record.result, record.weights, back)
    of_input, *of_weights = record.tape.gradient(record.result, [record.x, *record.weights], back)
    return of_input, of_weights
