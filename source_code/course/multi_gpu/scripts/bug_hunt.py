"""A small Horovod training, right or with one mistake in it: what do its records show?

    ddl run --workers 2 bug_hunt.py              # the correct script
    ddl run --workers 2 bug_hunt.py --case A     # or B, C, D, E, F: one step is missing or wrong
    ddl run --workers 2 bug_hunt.py --case G     # with a frozen layer

It trains on generated points for a few seconds, and ends well in every case. Each rank writes down
what it saw in steps-<k>.jsonl (course/training/rank_log.py): that is where to look.
"""

from course.training.options import CASES, SEED, Integer, Number, parser, run


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--case", default="none", choices=CASES)
    add("--steps", type=Integer(), default=20)
    add("--batch", type=Integer(), default=32, help="samples of each rank in a step")
    add("--learning-rate", type=Number(above=0), default=0.05, help="of one rank")
    add("--seed", type=SEED, default=0)
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import hashlib
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.data import Order, shard
from course.training.gpu import pin_gpu
from course.training.horovod_utils import broadcast
from course.training.rank_log import StepLog
from course.training.training_log import Writer
from ddl.records.checksums import checksum

FEATURES, CLASSES, SAMPLES, TEST_SAMPLES = 16, 4, 2048, 1024
# Digests of the step that each case omits, so that reading this file does not answer question 7 of 3b. They are not
# secret: the records show the answer.
LEFT_OUT = {"0500500ab1", "089db7caa1", "837ee990ed", "f3968b31b9", "f4b17f2aab", "fb1e40546d"}


def has(case, habit):
    """Return whether the script keeps to a habit in this case."""
    return hashlib.blake2s(f"{case} {habit}".encode(), digest_size=5).hexdigest() not in LEFT_OUT


def main(config):
    case = config.case

    # 1. Initialize: from here on this process knows its rank and how many there are.
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()

    # 2. Pin each rank to one GPU, where there are any.
    pin_gpu()

    # 3. Shard: one order of samples for all ranks, and of every batch each takes its own part.
    order = Order(SAMPLES, config.batch * ranks, config.seed)
    my_part = rank if has(case, "shard") else 0

    # 4. Scale the learning rate with the number of ranks, as the global batch grows with it.
    rate = config.learning_rate * (ranks if has(case, "scale") else 1)
    optimizer = tf.keras.optimizers.SGD(rate)

    # Every process draws weights of its own, as it does where nobody sets a seed.
    tf.keras.utils.set_random_seed(1000 * config.seed + rank)
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(32, "relu", input_shape=(FEATURES,)), tf.keras.layers.Dense(CLASSES)]
    )

    data, test = points(SAMPLES, config.seed), points(TEST_SAMPLES, config.seed + 1)

    @tf.function(autograph=False)
    def gradients_on(numbers):
        x, y = tf.gather(data[0], numbers), tf.gather(data[1], numbers)
        with tf.GradientTape() as tape:
            loss = loss_of(model(x), y)
        # 5. Wrap: the tape averages the gradients of all ranks.
        if has(case, "wrap"):
            tape = hvd.DistributedGradientTape(tape, op=hvd.Average)
        return tape.gradient(loss, model.trainable_variables), loss

    # 6. Broadcast: all ranks begin with rank 0's weights.
    if case == "G":
        model.layers[0].trainable = False
        broadcast(model.trainable_variables)
    elif has(case, "broadcast"):
        broadcast(model.variables)

    step_log, writer = StepLog(rank), Writer(rank == 0)
    start = {"rank": rank, "weights": checksum(model.get_weights())}
    step_log.tell("begin", **start, ranks=ranks, batch=config.batch, rate_of_one_rank=config.learning_rate)
    writer.event("start", steps=config.steps, world=ranks)
    gradients_on(np.arange(config.batch))  # not applied: the first call is slow because it builds the graph
    began = time.perf_counter()
    counted, loss = train(config, model, optimizer, gradients_on, order, my_part, step_log, writer)
    seconds = time.perf_counter() - began
    processed = float(hvd.allreduce(tf.constant(float(counted)), op=hvd.Sum, name="counted"))

    # 8. Write on rank 0 only.
    wrote = step_log.keep_weights(model.get_weights()) if rank == 0 or not has(case, "write") else None
    step_log.tell("end", samples_counted=counted, seconds=seconds, images_per_s=processed / seconds, wrote=wrote)
    if rank == 0:
        finish(writer, config, ranks, rate, order, processed, seconds, loss, evaluate(model, test))


def train(config, model, optimizer, gradients_on, order, my_part, step_log, writer):
    """Take all steps; return the samples that this rank counts as its own, and the last loss."""
    counted, ranks = 0, hvd.size()
    for step, batch in order.batches(0, config.steps):
        numbers = shard(batch, my_part, ranks)
        gradients, loss = gradients_on(numbers)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

        # What is counted here is summed over ranks at the end.
        counted += len(numbers) * (1 if has(config.case, "throughput") else ranks)
        step_log.tell(
            "step",
            step=step + 1,
            samples=numbers,
            rate=float(optimizer.learning_rate),
            update=checksum(gradients),
            weights=checksum(model.get_weights()),
        )
        # 7. Average metrics: each rank's own loss is that of its own part.
        loss = float(hvd.allreduce(loss, op=hvd.Average, name="loss"))
        writer.event("step", step=step + 1, loss=loss, samples=(step + 1) * config.batch * ranks)
    return counted, loss


def evaluate(model, test):
    """Return held-out loss and accuracy."""
    logits = model(test[0])
    hits = tf.cast(tf.argmax(logits, 1) == test[1], tf.float32)
    return {"test_loss": float(loss_of(logits, test[1])), "test_accuracy": float(tf.reduce_mean(hits))}


def finish(writer, config, ranks, rate, order, processed, seconds, loss, test):
    """Write the last evaluation and the result, and print a summary."""
    end = {
        "step": config.steps,
        "epoch": config.steps / order.steps,
        "samples": processed,
        "seconds": seconds,
        "images_per_s": processed / seconds,
        "loss": loss,
        **test,
    }
    writer.event("evaluation", **end)
    writer.print(
        f"{ranks} ranks, {config.steps} steps: loss {end['loss']:.3f}, held-out accuracy "
        f"{end['test_accuracy']:.1%}, {end['images_per_s']:,.0f} samples/s"
    )
    data = {"name": "points", "form": "generated", "train_samples": SAMPLES, "test_samples": TEST_SAMPLES}
    writer.result(
        config=vars(config),
        case=config.case,
        ranks=ranks,
        per_rank_batch=config.batch,
        global_batch=config.batch * ranks,
        learning_rate=rate,
        seed=config.seed,
        steps=config.steps,
        epochs=end["epoch"],
        train_seconds=end["seconds"],
        history=[end],
        data=data,
        **{key: end[key] for key in ("samples", "images_per_s", "loss", "test_loss", "test_accuracy")},
    )


def points(samples, seed):
    """Generate overlapping clusters of points, one per class: float32 ``[n, 16]``, int64."""
    centers = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    draw = np.random.default_rng([seed, samples])
    labels = draw.integers(CLASSES, size=samples)
    noise = draw.normal(scale=2.0, size=(samples, FEATURES))
    return (centers[labels] + noise).astype(np.float32), labels


def loss_of(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


if __name__ == "__main__":
    run(main, config)
