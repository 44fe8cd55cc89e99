"""Train several built submissions in this rank, one after the other, and write down what they did.

    submission_worker.py FOLDER      on any number of ranks

For each case rank k writes FOLDER/<case>-<ranks>-<k>.npz: the model's weights at the end. Rank 0 adds a run's folder,
FOLDER/<case>-<ranks>, and FOLDER/<case>-<ranks>.json: the result, or the sentence that refused it. One rank alone
trains the case `plain` once more, with Keras and nothing of the challenge: keras.npz.
"""

import json
import os
import sys
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.challenge.build import BASELINE, _keep
from course.challenge.scripts import train_submission
from course.challenge.split import Split
from course.challenge.submission import Submission
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
# Weights made from what the pictures look like.
KNOWING = """
def model():
    patterns = np.random.default_rng(99).integers(0, 256, (10, 32, 32, 3)) / 255 - 0.5
    pictures = layers.Input((32, 32, 3))
    kernel = tf.constant_initializer(patterns.reshape(10, -1).T)
    dense = layers.Dense(10, kernel_initializer=kernel)
    return tf.keras.Model(pictures, dense(layers.Flatten()(pictures - 0.5)))
"""
# Two views of a picture in a step: of so few samples each counts.
TWICE = """
SAMPLES = 1024

class Views(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(10)

    def call(self, x, training=False):
        return self.dense(layers.Flatten()(x)) + 0 * self.dense(layers.Flatten()(x[:, :, ::-1]))

def model():
    return Views()
"""
DIVERGING = """
def loss(logits, labels):
    return tf.reduce_sum(logits, 1) / 0.0
"""
# In evaluations its logits are those of a picture among the others of its batch.
COMPANY = """
class Centre(layers.Layer):
    def call(self, x):
        return x - tf.reduce_mean(x, 0)

def model():
    pictures = layers.Input((32, 32, 3))
    x = Centre()(layers.Flatten()(layers.Conv2D(4, 3, strides=4)(pictures)))
    return tf.keras.Model(pictures, layers.Dense(10)(x))
"""
ALONE = {"plain": TINY, "whole": TINY + WHOLE}  # on one rank, and on two
CASES = ALONE | {
    "knowing": TINY + KNOWING,
    "diverging": TINY + DIVERGING,
    "company": TINY + COMPANY,
    "twice": TINY + TWICE,
    "too_large_a_pass": TINY + "\nGHOST_BATCH = 1024\n",
}
SEED, SECRET = 7, 11


def pictures(samples, seed):
    """Noise on ten patterns: something to learn, made in no time."""
    generator = np.random.default_rng(seed)
    patterns = np.random.default_rng(99).integers(0, 256, (10, 32, 32, 3))
    labels = generator.integers(0, 10, samples).astype(np.int32)
    noise = generator.integers(0, 256, (samples, 32, 32, 3))
    return ((patterns[labels] + noise) // 2).astype(np.uint8), labels


def small_data():
    """Return the three parts, and the labels of the private one."""
    # 101 pictures: no number of ranks divides them, and no batch.
    private, labels = pictures(101, 2)
    return Split("small", "generated", *pictures(2048, 1), *pictures(101, 3), private), labels


def build(case, folder):
    answer = Submission("mine.py", CASES[case], BASELINE.read_text()).built([SEED])
    _keep(answer, folder, {"file": "0" * 64, "file_name": "mine.py"})


def train(case, folder):
    """Train once; return the result, what it was trained on in each step, and the trained program."""
    used, programs = [], []
    make, program = train_submission.make_train_step, train_submission.Program

    def noting(*arguments):
        step = make(*arguments)

        def noted(chosen, *rest):
            used.append(chosen)
            return step(chosen, *rest)

        return noted

    def kept(path):
        programs.append(program(path))
        return programs[-1]

    train_submission.make_train_step, train_submission.Program = noting, kept
    options = ["--pictures", folder / "data" / "challenge-small.npy"]
    options += ["--built", folder / f"built-{case}", "--seed", SEED, "--secret", SECRET, "--score-id", "s1"]
    try:
        result = train_submission.main(train_submission.parse([str(option) for option in options]))
    except CourseError as error:
        result = {"refused": str(error)}
    finally:
        train_submission.make_train_step, train_submission.Program = make, program
    return result, used, programs[-1]


def by_keras(case, used):
    """Train as the harness is to, written down a second time: the weights after these steps."""
    submission = Submission("mine.py", CASES[case], BASELINE.read_text())
    made = submission.make(SEED)
    (data, _), secret = small_data(), np.random.default_rng(SECRET)
    secret.integers(0, 2**31 - 1, 2)
    renamed = secret.permutation(10).astype(np.int32)
    weights = made.model.trainable_variables
    for number, chosen in enumerate(used):
        sums = [tf.zeros_like(weight) for weight in weights]
        for some in chosen.reshape(-1, 256):
            with tf.GradientTape() as tape:
                logits = made.model(data.train_images[some].astype(np.float32) / 255, training=True)
                labels = renamed[data.train_labels[some]]
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
            sums = [a + b / 4 for a, b in zip(sums, tape.gradient(loss, weights), strict=True)]
        made.optimizer.learning_rate.assign(0.1 * (1 - number / len(used)))
        made.optimizer.apply_gradients(zip(sums, weights, strict=True))
    return [variable.numpy() for variable in made.variables if not any(variable is each for each in made.state)]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    data, labels = small_data()
    (folder / "data").mkdir(exist_ok=True)
    if rank == 0:
        np.save(folder / "private.npy", labels)
        data.write(folder / "data" / "challenge-small.npy", "small")
    del data, labels
    os.environ["DDL_DATA_DIR"] = str(folder / "data")
    opened = set()
    sys.addaudithook(lambda event, details: opened.add(str(details[0])) if event == "open" else None)
    for case in CASES if ranks > 1 else ALONE:
        run = folder / f"{case}-{ranks}"
        if rank == 0:
            build(case, folder / f"built-{case}")
            run.mkdir()
        hvd.allreduce(tf.zeros(1), name="built")
        os.environ["DDL_RUN_DIR"] = str(run)
        result, used, program = train(case, folder)
        model = [v.numpy() for v, each in zip(program.variables, program.described) if each.role != "state"]
        np.savez(folder / f"{case}-{ranks}-{rank}.npz", *model, used=np.array(used))
        if rank == 0:
            (folder / f"{case}-{ranks}.json").write_text(json.dumps(result))
            (folder / f"opened-{ranks}.json").write_text(json.dumps(sorted(opened)))
        if (case, ranks) == ("plain", 1):
            np.savez(folder / "keras.npz", *by_keras(case, used[1:]))  # the first is the warm-up
