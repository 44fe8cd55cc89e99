"""Train a submission of the challenge once, on Horovod's ranks, and evaluate it on the public images.

    ddl run --workers 2 train_submission.py --file my_submission.py
    launch("train_submission.py", workers=2, file="my_submission.py")

The file may also be one of the course's own: baseline.py, reference.py. Evaluations are off the clock.
"""

import argparse

from course.challenge import rules
from course.training.options import Integer, parser, run


def parse_args(arguments=None) -> argparse.Namespace:
    """Return the script's options."""
    ours = parser(__doc__)
    add = ours.add_argument
    add("--file", required=True, help="the submission")
    add("--seed", type=Integer(0, 2**31 - 1), help="of everything that is drawn (default: a new one)")
    add("--data-set", default="auto", choices=("auto", "cifar10", "synthetic"))
    add("--private", action="store_true", help="also evaluate on the private images at the end (for recordings)")
    # A run with any of these is a trial, which has no place among others.
    add(
        "--samples",
        type=Integer(rules.GLOBAL_BATCH),
        metavar="N",
        help="train on this many samples instead of the file's SAMPLES",
    )
    add("--train-samples", type=Integer(), metavar="N", help="images to train on (default: all)")
    add("--public-samples", type=Integer(), metavar="N", help="images to evaluate on (default: all)")
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to refuse wrong options at once

import math
import secrets
from functools import partial

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course import data
from course.challenge.submission import Submission, find, read, sha256
from course.challenge.training import Training
from course.training.gpu import pin_gpu
from course.training.horovod_utils import average, average_statistics, cycle_time, suitable_cycle_ms
from course.training.loop import DIVERGED, train
from course.training.training_log import TrainingLog


def main(config):
    """Train, and return what goes into result.json."""
    # Horovod: initialize, and pin each rank to one GPU, if there are any.
    with cycle_time(suitable_cycle_ms(rules.GLOBAL_BATCH)):
        hvd.init()
    gpu = pin_gpu()
    sizes = {"train_samples": config.train_samples, "test_samples": config.public_samples}
    images = data.load(config.data_set, held_out="validation", **sizes)

    # Horovod: one seed for all ranks.
    seed = hvd.broadcast_object(secrets.randbits(31)) if config.seed is None else config.seed
    path = find(config.file)
    content = read(path)
    submission = Submission(str(path), content)
    capability = gpu and tf.config.experimental.get_device_details(gpu).get("compute_capability")
    # Horovod: average over ranks, all gradients in one message.
    averaged = partial(average, fp16=submission.COMPRESSION == "fp16")
    learn = images.train_images, images.train_labels
    training = Training(submission, *learn, seed, seed, hvd.rank(), hvd.size(), averaged, capability)
    # Horovod: broadcast rank 0's weights.
    hvd.broadcast_variables(training.model.variables, root_rank=0)

    steps, per_epoch = (config.samples or submission.SAMPLES) // rules.GLOBAL_BATCH, training.order.steps
    shown = training.prepare()
    log = TrainingLog(hvd.rank() == 0, steps, per_epoch, rules.GLOBAL_BATCH, samples_before=shown)
    log.print(f"{submission.name}: {steps} steps of {hvd.size()} ranks x {training.passes} passes")
    about = {
        "world": hvd.size(),
        "per_rank_batch": rules.GLOBAL_BATCH // hvd.size(),
        "data": images.describe(),
        "precision": training.precision,
    }
    log.start(**about)
    due = {math.ceil(steps * part / rules.EVALUATIONS) for part in range(1, rules.EVALUATIONS + 1)}

    def one_step(step, batch):
        return training.step(step, batch, steps), None

    def evaluate_now(done, diverged):
        if done == steps and not diverged:
            training.finish()
        return done in due or diverged

    def evaluate_public():
        average_statistics([each for each in training.model.non_trainable_variables if each.dtype.is_floating])
        return evaluate(training, images.test_images, images.test_labels)

    batches = training.order.batches(0, steps)
    stopped_by = train(log, batches, one_step, evaluate=evaluate_public, epochs=steps, evaluate_now=evaluate_now)
    if config.private:
        private = data.load(config.data_set)
        about["private_accuracy"] = evaluate(training, private.test_images, private.test_labels)[1]
    return log.result(
        **about,
        challenge={"file": sha256(content), "file_name": submission.name},
        config=vars(config),
        trial=bool(config.samples or config.train_samples or config.public_samples),
        model=submission.name,
        held_out="validation",
        parameters=sum(math.prod(weight.shape) for weight in training.weights),
        ghost_batch=submission.GHOST_BATCH,
        seed=seed,
        ranks=hvd.size(),
        global_batch=rules.GLOBAL_BATCH,
        seconds=log.history[-1]["seconds"],
        public_accuracy=log.history[-1]["test_accuracy"],
        diverged=stopped_by == DIVERGED,
    )


def evaluate(training, images, labels):
    """Return the mean cross-entropy and the accuracy over all ranks, each of which takes a part of the images."""
    mine = slice(hvd.rank(), None, hvd.size())
    logits, labels_ = training.predict(images[mine]), labels[mine]
    hits = np.isfinite(logits).all(1) & (logits.argmax(1) == labels_)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels_, logits)
    sums = tf.stack([tf.reduce_sum(losses), tf.cast(hits.sum(), tf.float32)])
    # Horovod: sum over ranks, then divide; an average of averages would weigh shards wrongly.
    return tuple((hvd.allreduce(sums, op=hvd.Sum, name="evaluation") / len(labels)).numpy().tolist())


if __name__ == "__main__":
    run(main, config)
