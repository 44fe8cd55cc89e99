"""Try a training step that a reader has written, on a few replicas: lesson 3's loop, while it is graded.

It takes two steps with a linear model, then trains a small network on labelled images and predicts the labels of
others. It notes what came out; `course.grader.loop` has drawn the data, and judges.
"""

import base64
import io
import runpy

import numpy
import tensorflow as tf

from course.data.augment import normalise
from course.training.examiner import examiner
from course.training.strategy import devices_for
from ddl.errors import InputError

TEST_BATCH = 200


def main(file: str) -> None:
    """Run the trial of a file that defines ``make_step``."""
    with numpy.load(io.BytesIO(base64.b64decode(examiner().given()["arrays"]))) as arrays:
        given = dict(arrays)
    devices, _ = devices_for(int(given["replicas"]))
    strategy = tf.distribute.MirroredStrategy(devices)
    make_step = runpy.run_path(file).get("make_step")
    if not callable(make_step):
        raise InputError("it does not define make_step(strategy, model, optimizer, global_batch)")
    _try_steps(make_step, strategy, given)
    _train(make_step, strategy, given)


def _try_steps(make_step, strategy, given):
    """Take a few steps with a linear model; note the loss that each returned, and the weights after it."""
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=given["few"].shape[2:])])
        optimizer = tf.keras.optimizers.SGD(float(given["rate"]))
        model.set_weights([given["kernel"], given["bias"]])
    step = make_step(strategy, model, optimizer, given["few"].shape[1])
    for batch in _distributed(strategy, given["few"], given["few_labels"]):
        loss = float(step(*batch))
        examiner().note("step", loss=loss, weights=[weight.tolist() for weight in model.get_weights()])


def _train(make_step, strategy, given):
    """Train on the labelled images; note how many there were, and what the network says of the others."""
    with strategy.scope():
        model = _network()
        optimizer = tf.keras.optimizers.Adam(3e-3)
    step = make_step(strategy, model, optimizer, given["images"].shape[1])
    images, trained = normalise(given["images"].reshape(-1, 32, 32, 3)).numpy(), 0
    for batch in _distributed(strategy, images.reshape(given["images"].shape), given["labels"]):
        step(*batch)
        trained += given["images"].shape[1]
    copy = _network()
    copy.set_weights(model.get_weights())
    others = given["others"]
    predict = tf.function(lambda some: tf.argmax(copy(normalise(some)), axis=1), autograph=False)
    predicted = [predict(others[first : first + TEST_BATCH]).numpy() for first in range(0, len(others), TEST_BATCH)]
    examiner().note("trained", samples=trained, predicted=numpy.concatenate(predicted).tolist())


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
    """Return batches, whose first axis is the steps', split over the replicas."""
    return strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((images, labels)))
