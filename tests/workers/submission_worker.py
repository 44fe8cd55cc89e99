"""Train several submissions in this rank, one after the other, and write down what they did.

    submission_worker.py FOLDER      on any number of ranks

For each case rank k writes FOLDER/<case>-<ranks>-<k>.npz: the model's variables at the end, and the images of each step.
Rank 0 adds a run's folder, FOLDER/<case>-<ranks>, and FOLDER/<case>-<ranks>.json: the result, or the sentence that
refused it. One rank alone trains the case `plain` once more, with Keras and nothing of the challenge: keras.npz.
"""

import json
import os
import sys
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course import data
from course.challenge.scripts import train_submission
from course.challenge.submission import Submission
from course.challenge.training import Training
from ddl.errors import CourseError

TINY = """
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SAMPLES = 5120
GHOST_BATCH = 256

def model():
    pictures = layers.Input((32, 32, 3))
    x = layers.Conv2D(4, 3, strides=4)(pictures)
    x = layers.Flatten()(layers.ReLU()(layers.BatchNormalization()(x)))
    return tf.keras.Model(pictures, layers.Dense(10)(x))

def augment(pictures, numbers, epoch, key):
    return pictures

def schedule(done):
    return 0.1 * (1 - done)
"""
# Everything that a file may do, and what depends on numbers, epoch and key.
WHOLE = """
COMPRESSION = "fp16"

def augment(pictures, numbers, epoch, key):
    flip = tf.random.stateless_uniform([256], key) < 0.5
    flip = flip != ((numbers + epoch) % 2 == 0)
    return tf.where(flip[:, None, None, None], pictures[:, :, ::-1], pictures)

def prepare(model, pictures):
    model.layers[1].bias.assign(-tf.reduce_mean(model.layers[1](pictures), [0, 1, 2]))

def finish(model, optimizer):
    for weight in model.trainable_variables:
        weight.assign(0.5 * weight)
"""
DIVERGING = """
def loss(logits, labels):
    return tf.reduce_sum(logits, 1) / 0.0
"""
ALONE = {"plain": TINY, "whole": TINY + WHOLE}  # on one rank, and on two
CASES = ALONE | {"diverging": TINY + DIVERGING, "too_large_a_pass": TINY + "\nGHOST_BATCH = 1024\n"}
SEED = 7
SIZES = {"train_samples": 2048, "test_samples": 101}  # no number of ranks divides 101, and no batch


def train(case, folder):
    """Train once; return the result, the images of each step, and the training."""
    used, trainings = [], []

    class Noting(Training):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            trainings.append(self)

        def step(self, number, batch, steps):
            used.append(train_submission.np.array_split(batch, self.ranks)[self.rank])
            return super().step(number, batch, steps)

    train_submission.Training = Noting
    path = folder / f"{case}.py"
    if hvd.rank() == 0:
        path.write_text(CASES[case])
    hvd.allreduce(tf.zeros(1), name="written")
    options = ["--file", path, "--seed", SEED, "--data-set", "synthetic", "--private"]
    options += ["--train-samples", 2048, "--public-samples", 101]
    try:
        result = train_submission.main(train_submission.parse([str(option) for option in options]))
    except CourseError as error:
        return {"refused": str(error)}, used, None
    return result, used, trainings[-1]


def by_keras(used):
    """Train as the harness should, written down a second time: the model's variables after these steps."""
    submission = Submission("mine.py", TINY.encode())
    images = data.load("synthetic", held_out="validation", **SIZES)
    secret = np.random.default_rng(SEED)
    secret.integers(0, 2**31 - 1, 2)
    renamed = secret.permutation(10).astype(np.int32)
    tf.keras.utils.set_random_seed(SEED)
    model, optimizer = submission.model(), submission.optimizer()
    weights = model.trainable_variables
    for number, chosen in enumerate(used):
        sums = [tf.zeros_like(weight) for weight in weights]
        for some in chosen.reshape(-1, 256):
            with tf.GradientTape() as tape:
                logits = model(images.train_images[some].astype(np.float32) / 255, training=True)
                labels = renamed[images.train_labels[some]]
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
            sums = [a + b / 4 for a, b in zip(sums, tape.gradient(loss, weights), strict=True)]
        optimizer.learning_rate.assign(0.1 * (1 - number / len(used)))
        optimizer.apply_gradients(zip(sums, weights, strict=True))
    return [variable.numpy() for variable in model.variables]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    test = data.load("synthetic", train_samples=1, test_samples=300)
    load = data.load
    # The private images are few here.
    train_submission.data.load = lambda name, **sizes: load(name, **sizes) if sizes else test
    for case in CASES if ranks > 1 else ALONE:
        run = folder / f"{case}-{ranks}"
        run.mkdir(exist_ok=True)
        os.environ["DDL_RUN_DIR"] = str(run)
        result, used, training = train(case, folder)
        variables = [variable.numpy() for variable in training.model.variables] if training else []
        np.savez(folder / f"{case}-{ranks}-{rank}.npz", *variables, used=np.array(used))
        if rank == 0:
            (folder / f"{case}-{ranks}.json").write_text(json.dumps(result))
        if (case, ranks) == ("plain", 1):
            np.savez(folder / "keras.npz", *by_keras(used))
