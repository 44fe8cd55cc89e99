"""Train the course's network on house numbers, with a training step from another file.

    ddl run --workers 1 svhn_loop.py --loop my_loop.py --epochs 4
    python source_code/course/multi_gpu/scripts/svhn_loop.py --loop my_loop.py --replicas 2 --steps 100

The file must define ``make_step(strategy, model, optimizer, global_batch)``: it returns a function of a distributed
batch (normalized images, labels) that takes one training step on all replicas and returns the mean loss over the global
batch. Before training, one such step is compared with the same step on a single device; the record shows if they
agree.

The data are SVHN (`ddl data fetch svhn`), or generated images of the same form.
"""

from pathlib import Path

from course.training.options import SEED, Integer, Number, add_data, parser, run, split_evenly


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--loop", required=True, metavar="FILE", help="defines make_step")
    add_data(ours, real="svhn")
    add("--replicas", type=Integer(), default=2, help="GPUs, or logical devices if there are fewer GPUs")
    add("--epochs", type=Integer(), default=2)
    add("--steps", type=Integer(), help="train for this many steps instead")
    add("--global-batch", type=Integer(), default=64, help="samples per step over all replicas")
    add("--learning-rate", type=Number(above=0), default=1e-3, metavar="RATE", help="of Adam")
    add("--seed", type=SEED, default=0, help="of initial weights and order")
    config = ours.parse_args(arguments)
    if not Path(config.loop).is_file():
        ours.error(
            f"--loop {config.loop}: not found in {Path.cwd()}; the file must define "
            "make_step(strategy, model, optimizer, global_batch)"
        )
    split_evenly(ours, config)
    return config


if __name__ == "__main__":
    config = parse()  # before the slow imports, to report wrong options at once

import math

import numpy as np
import tensorflow as tf

from course.data import Order, load
from course.data.augment import normalize
from course.data.tensors import constant
from course.multi_gpu.loop_harness import step_maker
from course.training import models
from course.training.journal import Journal
from course.training.strategy import devices_for, losses_and_hits, make_evaluation
from ddl.errors import InputError

CHECK_RATE = 0.1  # of plain SGD: any factor on the gradient is then a factor on the update
TOLERANCE = 1e-3  # of the update's length: float32 sums in another order are off by about 1e-6


def main(config):
    """Train, and return what goes into result.json."""
    make_step = step_maker(config.loop)
    devices, note = devices_for(config.replicas)
    strategy = tf.distribute.MirroredStrategy(devices)

    data = load(config.data_set, train_samples=config.train_samples, test_samples=config.test_samples, prefer="svhn")
    order = Order(data.train_samples, config.global_batch, config.seed)
    steps = config.steps or config.epochs * order.steps
    batches = make_batches(data, order, steps)

    def network():
        return models.build("cnn", norm="group", seed=config.seed, classes=len(data.class_names))

    checked = compare_step(make_step, strategy, network, batches, config.global_batch)
    # Create everything with variables in the strategy's scope, so that each replica gets them.
    with strategy.scope():
        model = network()
        optimizer = tf.keras.optimizers.Adam(config.learning_rate)
    train_step = make_step(strategy, model, optimizer, config.global_batch)
    evaluate = make_evaluation(network())

    journal = Journal(True, steps, order.steps, config.global_batch)
    for text in filter(None, [data.note, note, checked["note"]]):
        journal.note(text)
    journal.start(world=1, per_rank_batch=config.global_batch, data=data.describe())
    for step, batch in enumerate(strategy.experimental_distribute_dataset(batches), start=1):
        journal.step(step, train_step(*batch), config.learning_rate)
        if journal.epoch_ends(step):
            with journal.paused():
                seen = slice(0, data.test_samples)  # as many training as test images
                loss, accuracy = evaluate(model, data.train_images[seen], data.train_labels[seen])
                test_loss, test_accuracy = evaluate(model, data.test_images, data.test_labels)
            journal.evaluation(
                step,
                loss=loss,
                accuracy=accuracy,
                test_loss=test_loss,
                test_accuracy=test_accuracy,
                learning_rate=config.learning_rate,
            )

    return journal.result(
        config=vars(config),
        model="cnn",
        parameters=sum(int(np.prod(weight.shape)) for weight in model.trainable_variables),
        data=data.describe(),
        ranks=1,
        replicas=config.replicas,
        per_rank_batch=config.global_batch,
        global_batch=config.global_batch,
        seed=config.seed,
        learning_rate=config.learning_rate,
        agrees=checked["agrees"],
        first_step=checked,
    )


def make_batches(data, order, steps):
    """Return a data set of the whole training's batches: normalized images and labels."""
    numbers = np.stack([batch for _, batch in order.batches(0, steps)])
    with tf.device("CPU:0"):  # keep the images in the host's memory, not a GPU's
        images, labels = constant(data.train_images), constant(data.train_labels)
    return (
        tf.data.Dataset.from_tensor_slices(numbers)
        .map(lambda some: (normalize(tf.gather(images, some)), tf.gather(labels, some)))
        .prefetch(2)
    )


def compare_step(make_step, strategy, network, batches, global_batch):
    """Compare one step on all replicas with the same step on a single device, both by SGD.

    Returns whether both agree, the length of the weights' update relative to the single device's (``ratio``), and a
    ``note`` if they disagree, else None.
    """
    with strategy.scope():
        model = network()
        optimizer = tf.keras.optimizers.SGD(CHECK_RATE)
    before = flat(model)
    step = make_step(strategy, model, optimizer, global_batch)
    first = next(iter(strategy.experimental_distribute_dataset(batches.take(1))))
    loss = step(*first)
    try:
        loss = float(loss)
    except (TypeError, ValueError):
        raise InputError(
            f"the step returned {type(loss).__name__}, which is not one number: it has "
            "to return the mean loss over the global batch"
        ) from None
    ours = flat(model) - before

    single = network()
    images, labels = next(iter(batches))
    with tf.GradientTape() as tape:
        single_loss = tf.reduce_mean(losses_and_hits(labels, single(images, training=True))[0])
    gradients = tape.gradient(single_loss, single.trainable_variables)
    right = -CHECK_RATE * np.concatenate([np.ravel(each) for each in gradients]).astype(np.float64)

    length = np.linalg.norm(right)
    error, ratio = np.linalg.norm(ours - right) / length, np.linalg.norm(ours) / length
    agrees = bool(error < TOLERANCE and math.isclose(loss, float(single_loss), rel_tol=TOLERANCE))
    note = (
        f"the first step does not agree with a single device's: its update is {ratio:.3g} times as long and off by "
        f"{error:.1%} of it; its loss is {loss:.4f}, a single device's {float(single_loss):.4f}"
    )
    return {"agrees": agrees, "ratio": float(ratio), "note": None if agrees else note}


def flat(model):
    """Return all trainable weights as one float64 vector."""
    return np.concatenate([np.ravel(weight.numpy()) for weight in model.trainable_variables]).astype(np.float64)


if __name__ == "__main__":
    run(main, config)
