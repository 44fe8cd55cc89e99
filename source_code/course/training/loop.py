"""Training loop on Horovod's ranks, gradient accumulation and evaluation."""

import math

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.data.augment import normalize
from course.data.samples import on_device
from course.training.checkpoint import leave
from course.training.strategy import TEST_BATCH, losses_and_hits
from course.training.training_log import CLEAN, Means

# Divergence and preemption are checked at intervals, because a check waits for the GPU.
CHECK_EVERY_STEPS = 10
DIVERGED, LEAVING = "diverged", "time limit"  # why a training ends early


def train(
    log,
    batches,
    one_step,
    checkpoints=None,
    noise=None,
    *,
    evaluate,
    evaluate_clean=None,
    every=0,
    epochs=1,
    evaluate_now=lambda done, diverged: diverged,
    stop=lambda row: None,
):
    """Run a training's steps, counted by `log`; return why they ended early, or None.

    `batches` are pairs of a step's number, from 0, and its global batch. `one_step` is given such a pair, and returns
    the step's metrics and its learning rate or None. Metrics are averaged over ranks, float32, so that all ranks leave
    the loop together: loss and accuracy; for `checkpoints` whether any rank is being preempted; and for `noise`, a
    `NoiseScale`, its two squared norms.

    `evaluate` returns held-out loss and accuracy, at the steps and epochs set in `log`, and `evaluate_clean`, at the
    end of an epoch, the same for unaugmented training samples; the clock stops for both. `evaluate_now` is called
    before the clock is read, with the number of steps and whether the training has diverged, and returns whether to
    evaluate at once. `stop` returns why to stop at an evaluation, given its row, or None.
    """
    means, steps = Means(), log.steps
    check_every = CHECK_EVERY_STEPS
    if checkpoints:
        _restore(checkpoints.state, means, noise)
        check_every = max(1, min(CHECK_EVERY_STEPS, steps // 10))  # at least ten times in a training
    for step, batch in batches:
        metrics, rate = one_step(step, batch)
        done = step + 1
        check = done % check_every == 0 or done == steps
        means.add(metrics)
        read = np.asarray(metrics) if check or noise else None
        if noise:
            noise.update(float(read[3]), float(read[4]))
        diverged = check and not math.isfinite(read[0])
        at_once = evaluate_now(done, diverged)
        if log.step(done, metrics, rate) and noise:
            log.event("noise_scale", step=done, **noise.figures())
        row, ends = None, log.epoch_ends(done, epochs)
        if at_once or ends or (every and done % every == 0):
            figures = ({} if rate is None else {"learning_rate": rate}) | (noise.figures() if noise else {})
            row = _evaluation(log, done, means, evaluate, ends and evaluate_clean, figures)
        stopped_by = DIVERGED if diverged else row and stop(row)
        if stopped_by == DIVERGED:
            log.note(f"diverged: the loss is not a finite number at step {done}")
        if checkpoints and not stopped_by:
            leaving = check and done < steps and bool(read[2])
            stopped_by = LEAVING if leaving else None
            _keep(checkpoints, done, log, means, noise, leaving)
        if stopped_by:
            break
    else:
        stopped_by = None
    if checkpoints:
        checkpoints.finish(log)
    return stopped_by


def _restore(state, means, noise):
    means.restore(state)
    if noise:
        noise.restore(state.get("noise"))


def _keep(checkpoints, done, log, means, noise, leaving):
    checkpoints.save_if_due(done, log, lambda: {**means.state(), "noise": noise and noise.state()}, at_once=leaving)
    if leaving:
        leave(done, log)


def _evaluation(log, done, means, evaluate, evaluate_clean, figures):
    loss, accuracy = means.pop()
    with log.paused():
        test_loss, test_accuracy = evaluate()
        clean = dict(zip(CLEAN, evaluate_clean(), strict=True)) if evaluate_clean else {}
    return log.evaluation(
        done, loss=loss, accuracy=accuracy, test_loss=test_loss, test_accuracy=test_accuracy, **clean, **figures
    )


def in_passes(forward_backward, samples, passes, weights, metrics):
    """Return gradients and metrics of a rank's part of a batch, averaged over passes of equally many samples.

    `forward_backward` takes a pass's samples and their offset. It returns a list: the gradients of the `weights`, then
    `metrics` values, float32.
    """
    size = samples.shape[0] // passes

    def add(index, sums):
        first = index * size
        new = forward_backward(samples[first : first + size], first)
        return index + 1, [a + b / passes for a, b in zip(sums, new, strict=True)]

    zeros = [*(tf.zeros(weight.shape) for weight in weights), tf.zeros(metrics)]
    # One pass at a time, to use the memory of one pass and update norms' statistics in order.
    return tf.while_loop(lambda index, _: index < passes, add, (0, zeros), parallel_iterations=1)[1]


def make_evaluation(model, images, labels, prepare=lambda: None):
    """Return a function that evaluates loss and accuracy on images, with the same result on every rank.

    The ranks divide the images. `prepare` is called first.
    """
    samples = on_device(images, labels)
    mine = np.arange(hvd.rank(), len(labels), hvd.size(), dtype=np.int32)
    parts = [mine[first : first + TEST_BATCH] for first in range(0, len(mine), TEST_BATCH)]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.int32)])
    def sums(numbers):
        pictures, wanted = samples.gather(numbers)
        return tf.reduce_sum(losses_and_hits(wanted, model(normalize(pictures), training=False)), axis=1)

    def evaluate():
        prepare()
        total = sum(map(sums, parts), tf.zeros(2))
        # Horovod: sum over ranks, then divide; averaging the averages would weight shards wrongly.
        total = hvd.allreduce(total, op=hvd.Sum, name="evaluation")
        return (total / len(labels)).numpy().tolist()

    return evaluate
