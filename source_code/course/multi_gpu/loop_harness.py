"""Harness that runs a reader's training step on a few replicas, to grade lesson 3d's loop.

The step runs twice with a linear model, then trains a small network on labeled images to predict the labels of others.
`course.multi_gpu.own_loop` draws the data and checks the report.
"""

import os
import runpy

import numpy
import tensorflow as tf

from course.data.augment import normalize
from course.data.tensors import untuned
from course.training.strategy import devices_for
from ddl.errors import InputError

TEST_BATCH = 200


def main(file: str) -> None:
    """Run a file that defines ``make_step`` and report its results."""
    with numpy.load("../given.npz") as arrays:
        given = dict(arrays)
    devices, _ = devices_for(int(given["replicas"]))
    strategy = tf.distribute.MirroredStrategy(devices)
    make_step = step_maker(file)
    reported = _try_steps(make_step, strategy, given) | {"predicted": _train(make_step, strategy, given)}
    numpy.savez(os.environ["DDL_REPORT"], **reported)


def step_maker(file: str):
    """Return a file's ``make_step``. Raises InputError if it defines none."""
    found = runpy.run_path(file).get("make_step")
    if not callable(found):
        raise InputError(f"{file} does not define make_step(strategy, model, optimizer, global_batch)")
    return found


def _try_steps(make_step, strategy, given):
    """Take a few steps with a linear model; return each step's loss and weights."""
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=given["few"].shape[2:])])
        optimizer = tf.keras.optimizers.SGD(float(given["rate"]))
        model.set_weights([given["kernel"], given["bias"]])
    step = make_step(strategy, model, optimizer, given["few"].shape[1])
    losses, kernels, biases = [], [], []
    for batch in _distributed(strategy, given["few"], given["few_labels"]):
        losses.append(float(step(*batch)))
        kernels.append(model.get_weights()[0])
        biases.append(model.get_weights()[1])
    return {"losses": losses, "kernels": kernels, "biases": biases}


def _train(make_step, strategy, given):
    """Train on the labeled images; return the predicted labels of the others."""
    with strategy.scope():
        model = _network()
        optimizer = tf.keras.optimizers.Adam(3e-3)
    step = make_step(strategy, model, optimizer, given["images"].shape[1])
    images = normalize(given["images"].reshape(-1, 32, 32, 3)).numpy()
    for batch in _distributed(strategy, images.reshape(given["images"].shape), given["labels"]):
        step(*batch)
    copy = _network()
    copy.set_weights(model.get_weights())
    others = given["others"]
    predict = tf.function(lambda some: tf.argmax(copy(normalize(some)), axis=1), autograph=False)
    return numpy.concatenate(
        [predict(others[first : first + TEST_BATCH]).numpy() for first in range(0, len(others), TEST_BATCH)]
    )


def _network():
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Conv2D(24, 4, 4, activation="relu", input_shape=(32, 32, 3)),
            layers.Conv2D(48, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )


def _distributed(strategy, images, labels):
    """Split batches, with steps along the first axis, over the replicas."""
    return strategy.experimental_distribute_dataset(untuned(tf.data.Dataset.from_tensor_slices((images, labels))))
