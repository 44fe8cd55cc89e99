"""One layer at a time, forward and back: what a training step, ZeRO's third stage and a pipeline are made of."""

from typing import NamedTuple

import tensorflow as tf

from course.sharding.transformer import Layer


class Record(NamedTuple):
    """What a layer's gradients are computed from: its tape, input, weights and result."""

    tape: tf.GradientTape
    x: tf.Tensor
    weights: list
    result: tf.Tensor


def record(layer: Layer, x, weights: list, *targets) -> Record:
    """Run a layer, and keep what its gradients need: these tensors are the activations."""
    with tf.GradientTape() as tape:
        tape.watch([x, *weights] if x.dtype.is_floating else weights)
        return Record(tape, x, weights, layer.function(x, *targets, *weights))


def gradients(record: Record, back=None) -> tuple:
    """Return the gradients of a layer's input (None of characters) and of its weights, a list.

    `back` is the gradient of its result; None for a loss.
    """
    if not record.x.dtype.is_floating:
        return None, record.tape.gradient(record.result, record.weights, back)
    of_input, *of_weights = record.tape.gradient(record.result, [record.x, *record.weights], back)
    return of_input, of_weights
