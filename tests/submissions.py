"""A small submission for tests of the challenge, and what is built of one: only that needs TensorFlow."""

from course.challenge.build import BASELINE, _keep

START = """
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers
"""
TINY = f"""{START}
SAMPLES = 2048

def model(*extra):
    pictures = layers.Input((32, 32, 3))
    x = layers.Flatten()(layers.AveragePooling2D(8)(pictures))
    for layer in extra:
        x = layer(x)
    return tf.keras.Model(pictures, layers.Dense(10)(x))

tiny = model

def augment(pictures, numbers, epoch, key):
    return pictures
"""


def submission(source):
    """Return what the builder makes of a file's text, over the baseline's."""
    from course.challenge.submission import Submission

    return Submission("mine.py", source, BASELINE.read_text())


def program(made, folder, seed):
    """Build a submission into a folder; return what a rank makes of it."""
    from course.challenge.graphs import Program

    _keep(made.built([seed]), folder, {"file": "0" * 64, "file_name": made.name})
    return Program(folder)
