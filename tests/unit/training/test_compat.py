"""What differs between the stacks does the same on both."""

import importlib.metadata
import subprocess
import sys

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from course.training import models
from course.training.compat import LAMB, horovod_callbacks, lamb
from course.training.optimizer import make
from ddl.records import stack

STEPS, RATE, DECAY = 8, 0.02, 0.01


def trained(optimizer):
    """Take steps with the course's network and gradients from one seed; return all weights after each."""
    variables = models.build("cnn", norm="batch").trainable_variables
    draw, seen = np.random.default_rng(0), []
    for _ in range(STEPS):
        gradients = [tf.constant(draw.normal(size=v.shape), tf.float32) for v in variables]
        optimizer.apply_gradients(zip(gradients, variables))
        seen.append([variable.numpy() for variable in variables])
    return seen


def test_our_lamb_takes_the_steps_of_tensorflow_addons():
    if stack.name() == "next":
        assert type(lamb(RATE, DECAY)) is LAMB  # there are no addons to compare with: test_optimizer has the paper's
        return
    addons = lamb(RATE, DECAY)
    assert type(addons).__module__.startswith("tensorflow_addons")  # which stays what this stack trains with
    for ours, theirs in zip(trained(LAMB(RATE, DECAY)), trained(addons), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-7)


def test_our_lamb_leaves_zeros_finite():
    kernel = tf.Variable(tf.zeros([4]), name="kernel")
    for gradient in (np.ones(4), np.zeros(4)):
        LAMB(RATE).apply_gradients([(tf.constant(gradient, tf.float32), kernel)])
        assert np.all(np.isfinite(kernel.numpy()))


def test_our_lamb_is_broadcast_and_saved_as_the_others_are():
    kernel = tf.Variable(tf.ones([4]), name="kernel")
    optimizer = LAMB(RATE)
    optimizer._create_all_weights([kernel])
    before = [variable.shape for variable in optimizer.variables()]
    assert len(before) == 1 + 2  # the count of steps, and two slots
    optimizer.apply_gradients([(tf.ones([4]), kernel)])
    assert [variable.shape for variable in optimizer.variables()] == before
    optimizer.learning_rate = 0.5
    assert float(make("lamb", 0.25, [kernel]).learning_rate) == 0.25 and float(optimizer.learning_rate) == 0.5


def test_horovods_callbacks_use_the_keras_that_trains():
    pytest.importorskip("horovod.tensorflow.keras")
    assert horovod_callbacks().K.learning_phase is tf.keras.backend.learning_phase
    package = tf.keras.Model.__module__.partition(".")[0]  # keras, or tf_keras
    assert importlib.metadata.version(package.replace("_", "-")).startswith("2.")


def test_each_stack_has_the_variable_that_its_keras_needs():
    """Every process of the next stack's environment has it from its start, and none of the default's."""
    try:
        importlib.metadata.version("tf-keras")
        wanted = "1"
    except importlib.metadata.PackageNotFoundError:
        wanted = "None"
    program = f"import os; print(os.environ.get({stack.VARIABLE!r}))"
    assert subprocess.check_output([sys.executable, "-c", program], env={}, text=True) == f"{wanted}\n"
