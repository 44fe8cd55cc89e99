"""Train a network on CIFAR-10 with any number of Horovod workers.

    ddl run --workers 2 train_cifar.py --recipe warmup
    ddl run --workers 2 train_cifar.py --recipe lamb --global-batch 1024 --epochs 8
    horovodrun --gloo -np 2 python source_code/train_cifar.py --recipe batch_norm
    python source_code/train_cifar.py --steps 20        # one worker, no run folder

A recipe changes one thing in the one before it (ddl/recipes.py). Under `ddl run` rank 0 writes
events.jsonl while it trains and result.json at the end; elsewhere it only prints. A job that a
scheduler is about to end leaves a checkpoint; started again in its folder, it goes on from there.
"""

from ddl.data.dataset import HELD_OUT, VALIDATION_SAMPLES
from ddl.training.options import MODELS, SEED, Integer, Number, parser
from ddl.training.precision import PRECISIONS, set_precision
from ddl.training.recipes import BASE_RATES, RECIPES
from ddl.training.schedule import DECAYS

STATISTICS_SAMPLES = 1_000  # that batch norm's statistics are computed anew from
CLEAN_SAMPLES = 2_000  # training pictures that are evaluated as they are


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--recipe", default="base", choices=RECIPES)
    add("--model", default="cnn", choices=MODELS)
    # Data
    add("--data-set", default="auto", choices=("auto", "cifar10", "synthetic"))
    add("--train-samples", type=Integer(), metavar="N", help="train on a part (default: all 50,000)")
    add("--test-samples", type=Integer(), metavar="N", help="default: all 10,000")
    add(
        "--held-out",
        default="test",
        choices=HELD_OUT,
        help=f"evaluate on test pictures, or on {VALIDATION_SAMPLES:,} training pictures set aside (default: test)",
    )
    add("--no-augment", action="store_true", help="no random flips and shifts")
    add(
        "--identical-data",
        action="store_true",
        help="give every rank the SAME samples: a common mistake, here to be looked at",
    )
    # How long
    add("--epochs", type=Number(above=0), default=8)
    add("--steps", type=Integer(), help="train for so many steps instead")
    add(
        "--target-accuracy",
        type=Number(above=0, most=1),
        metavar="A",
        help="stop at the first evaluation with this held-out accuracy (0 to 1)",
    )
    add(
        "--target-loss",
        type=Number(above=0),
        metavar="L",
        help="stop at the first end of an epoch with this loss on training pictures, not augmented",
    )
    add("--evaluate-epochs", type=Integer(), default=1, metavar="N", help="at the end of each N-th epoch (default: 1)")
    add("--evaluate-every", type=Integer(0), default=0, metavar="STEPS", help="as well as at the end of epochs")
    # Batch
    add("--global-batch", type=Integer(), default=64, help="samples in a step of all ranks together")
    add(
        "--backward-passes-per-step",
        type=Integer(),
        default=1,
        metavar="K",
        help="take a rank's part in K passes, then average once",
    )
    add("--ghost-batch", type=Integer(), metavar="N", help="as many passes as give batch norm N samples at a time")
    add(
        "--statistics",
        default="moving",
        choices=("moving", "recomputed"),
        help="batch norm's in evaluations: averages over the last steps, or computed anew from "
        f"{STATISTICS_SAMPLES:,} training pictures (default: moving)",
    )
    # Learning rate and optimizer: what is not given is the recipe's
    add("--optimizer", choices=BASE_RATES)
    add(
        "--learning-rate",
        type=Number(above=0),
        metavar="RATE",
        help="at a global batch of 64, before any scaling (default: the optimizer's own)",
    )
    add("--warmup-epochs", type=Number(0))
    add("--schedule", default="cosine", choices=DECAYS, help="after the warm-up (default: cosine)")
    add("--momentum", type=Number(0, 1), metavar="M", help="of sgd (Nesterov's; 0: plain SGD) and lars (default: 0.9)")
    add("--trust", type=Number(above=0), metavar="T", help="of lars (default: 0.02)")
    add("--weight-decay", type=Number(0), default=0.0)
    add("--label-smoothing", type=Number(0, 1), default=0.0)
    add("--seed", type=SEED, default=0, help="of initial weights, order and augmentation")
    # Workers
    add("--sync-bn", action="store_true", help="batch statistics of all ranks together")
    add("--fp16-compression", action="store_true", help="send gradients in half precision")
    add("--precision", default="float32", choices=PRECISIONS, help="compute in; auto: in the faster (default: float32)")
    add("--noise-scale", action="store_true", help="measure the gradient noise scale")
    add("--timeline", action="store_true", help="have Horovod write down what it does, and when")
    # Keeping and interrupting
    add("--keep-weights", action="store_true", help="write the weights at the end into the run's folder")
    add("--checkpoint-every", type=Integer(0), default=0, metavar="STEPS")
    add("--resume", metavar="FOLDER_OR_RUN", help="go on from that run's checkpoint")
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse()  # before the slow imports: a wrong option is refused at once

import math
import sys

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from ddl.analysis import timeline
from ddl.data import Order, load
from ddl.data.augment import augment, normalise
from ddl.data.tensors import constant
from ddl.errors import CourseError
from ddl.records.folder import StorageError
from ddl.training import models, optimizer
from ddl.training.checkpoint import Checkpoints, Notice, folder
from ddl.training.exchange import cycle_time, suitable_cycle_ms
from ddl.training.journal import Journal, Means, Startup
from ddl.training.noise import NoiseScale
from ddl.training.recipes import micro_batch, settle
from ddl.training.schedule import Schedule
from ddl.training.witness import keep_weights

TEST_BATCH = 500  # small enough for any device, large enough to keep it busy
# Whether the training diverged or must make room is checked now and then: a check waits for the GPU.
CHECK_EVERY_STEPS = 10


def main(config):
    """Train, and return what goes into result.json, or None where the job must be requeued."""
    startup = Startup()  # where the seconds until the first step go
    notice = Notice()  # from now on, the scheduler's warning of the time limit is heard

    if config.timeline:
        timeline.request()
    if config.keep_weights:
        folder()  # refused now where there is none

    # Horovod: initialise. From here on this process knows its rank and how many there are.
    # Synchronous batch norm exchanges many times in a step: there a short cycle pays.
    with cycle_time(None if config.sync_bn else suitable_cycle_ms(config.global_batch)):
        hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    startup.ends("init")

    # Horovod: pin each rank to one GPU, where there are any.
    precision = set_precision(config.precision, pin_device())

    # Horovod: shard. One order of samples for all; each rank takes its part of every batch.
    data = load(
        config.data_set, train_samples=config.train_samples, test_samples=config.test_samples, held_out=config.held_out
    )
    order = Order(data.train_samples, config.global_batch, config.seed)
    arm, steps = settle(config, order.steps, ranks)
    part = rank_slice(config, rank, ranks)
    startup.ends("data")

    model = models.build(config.model, norm=arm.norm, sync_norm=config.sync_bn, seed=config.seed)

    # Horovod: scale the learning rate with the global batch, if the recipe says so.
    schedule = Schedule(
        start=config.learning_rate,
        peak=arm.rate(config.global_batch, config.learning_rate),
        warmup_epochs=arm.warmup_epochs,
        epochs=steps / order.steps,
        decay=config.schedule,
    )
    optim = optimizer.make(
        arm.optimizer, schedule(0), model.trainable_variables, config.weight_decay, config.momentum, config.trust
    )

    # Horovod: wrap. The step averages the gradients of all ranks before it applies them.
    train_step = make_train_step(model, optim, data, config, part)
    prepare = recomputing(model, config, data)
    evaluate = make_evaluation(model, data.test_images, data.test_labels, rank, ranks, prepare)
    seen = slice(min(CLEAN_SAMPLES, data.train_samples))
    evaluate_clean = make_evaluation(model, data.train_images[seen], data.train_labels[seen], rank, ranks)
    startup.ends("model")

    # Horovod: broadcast rank 0's weights and optimizer state, fresh or from a checkpoint: this
    # run's own if it was interrupted, or another's.
    variables = model.variables + optim.variables()
    checkpoints = Checkpoints(
        variables, comparable(config, data, precision), config.checkpoint_every, agree=lambda: average_statistics(model)
    )
    state = checkpoints.resume(config.resume)
    hvd.broadcast_variables(variables, root_rank=0, inplace=True)
    startup.ends("broadcast")

    # Horovod: write on rank 0 only.
    journal = Journal(rank == 0, steps, order.steps, config.global_batch, state.get("journal"), startup=startup)
    announce(journal, config, arm, data, schedule, ranks)
    journal.print(f"computes in {precision}")
    means = Means()
    means.restore(state)
    noise = NoiseScale(ghost_batch(config, ranks), config.global_batch) if config.noise_scale else None
    if noise:
        noise.restore(state.get("noise"))
    first = state.get("step", 0)
    journal.start(
        first, world=ranks, per_rank_batch=config.global_batch // ranks, data=data.describe(), precision=precision
    )

    stopped_by = "steps" if config.steps else "epochs"
    check_every = max(1, min(CHECK_EVERY_STEPS, steps // 10))  # at least ten times in a training
    for step, batch in order.batches(first, steps):
        rate = schedule(step / order.steps)
        metrics = train_step(batch[part], step, rate, float(notice.given))
        done = step + 1

        means.add(metrics[:2])  # loss and accuracy
        if noise:
            noise.update(float(metrics[3]), float(metrics[4]))
        if journal.step(done, metrics[0], rate) and noise:
            journal.event("noise_scale", step=done, **noise.figures())

        # All ranks see the same averages, so all of them leave the loop together.
        check = done % check_every == 0
        diverged = check and not math.isfinite(metrics[0])
        leaving = check and done < steps and bool(metrics[2])

        row = journal.evaluate_if_due(
            done,
            evaluate,
            means,
            every=config.evaluate_every,
            epochs=config.evaluate_epochs,
            at_once=diverged,
            evaluate_clean=evaluate_clean,
            learning_rate=rate,
            **(noise.figures() if noise else {}),
        )
        if diverged or (row and not math.isfinite(row["loss"])):
            stopped_by = "diverged"
            journal.note(f"diverged: the loss is not a finite number at step {done}")
            break
        if row and reached(config, row):
            stopped_by = "target"
            break
        checkpoints.save_if_due(
            done, journal, lambda: {**means.state(), "noise": noise and noise.state()}, at_once=leaving
        )
        if leaving:
            return checkpoints.leave(done, journal)

    if config.keep_weights and rank == 0:
        try:
            keep_weights(folder(), model.get_weights())
        except StorageError as error:
            journal.note(f"{error}. The weights are lost, the results are not")
    return journal.result(
        **facts(config, model, data, schedule, ranks),
        precision=precision,
        stopped_by=stopped_by,
        diverged=stopped_by == "diverged",
        noise_scale=noise.value if noise else None,
    )


def reached(config, row):
    """Whether an evaluation has what the training was to stop at."""
    accuracy = config.target_accuracy is not None and row["test_accuracy"] >= config.target_accuracy
    return accuracy or (config.target_loss is not None and row.get("clean_loss", math.inf) <= config.target_loss)


def ghost_batch(config, ranks):
    """Return the samples of one backward pass, which batch norm normalises over unless it is synchronous."""
    return micro_batch(config.global_batch, ranks, config.backward_passes_per_step)


def pin_device():
    """Let this rank see one GPU only, and return it; None where there is none."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return None
    # The remainder: a scheduler may show each rank only its own GPU, under number 0.
    mine = gpus[hvd.local_rank() % len(gpus)]
    tf.config.set_visible_devices(mine, "GPU")
    tf.config.experimental.set_memory_growth(mine, True)
    return mine


def rank_slice(config, rank, ranks):
    """Return which part of every global batch this rank trains on."""
    each = config.global_batch // ranks
    first = 0 if config.identical_data else rank * each
    return slice(first, first + each)


def make_train_step(model, optim, data, config, part):
    """Return a function of (sample numbers, step, learning rate, notice) that trains one step.

    It returns loss, accuracy and notice (above 0 if any rank was given one), averaged over ranks,
    and with --noise-scale the squared norms of the gradients of single passes (their average) and
    of the averaged gradient.
    """
    images, labels = constant(data.train_images), constant(data.train_labels)
    classes, weights = len(data.class_names), model.trainable_variables
    passes = config.backward_passes_per_step
    micro = (part.stop - part.start) // passes

    def average(gradients, metrics):
        if config.fp16_compression:  # of the gradients only: metrics keep their digits, in a message of their own
            gradients = hvd.grouped_allreduce(gradients, op=hvd.Average, compression=hvd.Compression.fp16)
            return gradients, hvd.allreduce(metrics, op=hvd.Average)
        *gradients, metrics = hvd.grouped_allreduce([*gradients, metrics], op=hvd.Average)
        return gradients, metrics

    def forward_backward(numbers, step, position):
        pictures = tf.gather(images, numbers)
        if not config.no_augment:
            pictures = augment(pictures, (config.seed, step), position, config.global_batch)
        target = tf.gather(labels, numbers)
        smooth = config.label_smoothing
        wanted = tf.one_hot(target, classes) * (1 - smooth) + smooth / classes
        with tf.GradientTape() as tape:
            logits = model(normalise(pictures), training=True)
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(wanted, logits))
        hits = tf.reduce_mean(tf.cast(tf.argmax(logits, 1, tf.int32) == target, tf.float32))
        gradients = tape.gradient(loss, weights)
        return [*gradients, tf.stack([loss, hits, squared_norm(gradients) if config.noise_scale else 0.0])]

    def in_passes(numbers, step):
        def add(index, sums):
            first = index * micro
            new = forward_backward(numbers[first : first + micro], step, part.start + first)
            return index + 1, [a + b / passes for a, b in zip(sums, new)]

        zeros = [*map(tf.zeros_like, weights), tf.zeros(3)]
        # One pass at a time: to need the memory of one is what the passes are for.
        return tf.while_loop(lambda index, _: index < passes, add, (0, zeros), parallel_iterations=1)[1]

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([micro * passes], tf.int32),
            tf.TensorSpec([], tf.int32),
            tf.TensorSpec([]),
            tf.TensorSpec([]),
        ],
    )
    def train_step(numbers, step, rate, notice):
        if passes == 1:
            *gradients, metrics = forward_backward(numbers, step, part.start)
        else:
            *gradients, metrics = in_passes(numbers, step)
        metrics = tf.concat([metrics[:2], [notice], metrics[2:]], 0)
        if hvd.size() > 1:
            # Horovod: average over ranks, all gradients in one message.
            gradients, metrics = average(gradients, metrics)
        if config.noise_scale:
            metrics = tf.concat([metrics, [squared_norm(gradients)]], 0)
        optim.learning_rate.assign(rate)
        optim.apply_gradients(zip(gradients, weights))
        return metrics

    return train_step


def squared_norm(tensors):
    return tf.add_n([tf.reduce_sum(tf.square(tensor)) for tensor in tensors])


def recomputing(model, config, data):
    """Return what makes batch norm's statistics ready for an evaluation."""
    if config.statistics == "recomputed":
        seen = constant(data.train_images[:STATISTICS_SAMPLES])
        if recompute := models.recomputing(model, normalise(seen)):
            return recompute
    # Horovod: what ranks keep of their own is averaged, or each would evaluate another model.
    return lambda: average_statistics(model)


def make_evaluation(model, images, labels, rank, ranks, prepare=lambda: None):
    """Return a function that gives loss and accuracy on pictures as they are, the same on every rank.

    Each rank takes every so many-th picture. The last batch is filled up with pictures of
    weight 0, so that all batches have one shape, and sums are added before they are divided.
    `prepare` is called before.
    """
    samples = len(labels)
    images, labels = constant(images), constant(labels)
    numbers = np.arange(rank, samples, ranks, dtype=np.int32)
    batch = min(TEST_BATCH, -(-samples // ranks))
    fill = -len(numbers) % batch
    weight = np.append(np.ones(len(numbers), np.float32), np.zeros(fill, np.float32))
    numbers = np.append(numbers, np.zeros(fill, np.int32))

    @tf.function(autograph=False)
    def sums(numbers, weight):
        target = tf.gather(labels, numbers)
        logits = model(normalise(tf.gather(images, numbers)), training=False)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
        hits = tf.cast(tf.argmax(logits, 1, tf.int32) == target, tf.float32)
        return tf.stack([tf.reduce_sum(loss * weight), tf.reduce_sum(hits * weight), tf.reduce_sum(weight)])

    def evaluate():
        prepare()
        parts = [slice(first, first + batch) for first in range(0, len(numbers), batch)]
        total = sum((sums(numbers[part], weight[part]) for part in parts), tf.zeros(3))
        # Horovod: sum over ranks, then divide; an average of averages would weigh shards wrongly.
        loss, hits, count = hvd.allreduce(total, op=hvd.Sum, name="evaluation").numpy().tolist()
        return loss / count, hits / count

    return evaluate


def average_statistics(model):
    """Give all ranks one and the same model: the mean of their batch norms' moving statistics."""
    statistics = model.non_trainable_variables
    if statistics and hvd.size() > 1:
        means = hvd.grouped_allreduce(statistics, op=hvd.Average, name="statistics")
        for variable, mean in zip(statistics, means):
            variable.assign(mean)


def comparable(config, data, precision):
    """Return what a training that goes on from a checkpoint must agree with."""
    names = ("model", "recipe", "optimizer", "sync_bn", "seed", "global_batch", "no_augment")
    return {name: getattr(config, name) for name in names} | data.describe() | {"precision": precision}


def facts(config, model, data, schedule, ranks):
    """Return what result.json says of the settings."""
    return {
        "config": vars(config),
        "recipe": config.recipe,
        "model": config.model,
        "parameters": sum(int(np.prod(weight.shape)) for weight in model.trainable_variables),
        "data": data.describe(),
        "ranks": ranks,
        "per_rank_batch": config.global_batch // ranks,
        "global_batch": config.global_batch,
        "backward_passes_per_step": config.backward_passes_per_step,
        "ghost_batch": ghost_batch(config, ranks),
        "held_out": config.held_out,
        "identical_data": config.identical_data,
        "seed": config.seed,
        "learning_rate": schedule.peak,
    }


def announce(journal, config, arm, data, schedule, ranks):
    """Say what is about to be trained, and on what."""
    facts = data.describe()
    journal.print(
        f"data: {facts['name']} ({facts['form']}), {facts['train_samples']} training and "
        f"{facts['test_samples']} {facts['held_out']} pictures\n"
        f"batch: {ranks} ranks x {config.global_batch // ranks} = {config.global_batch}\n"
        f"recipe {arm.name}: norm {arm.norm}, {arm.optimizer}, learning rate "
        f"{config.learning_rate:g} at batch 64, {schedule.peak:g} at this one, "
        f"warm-up {schedule.warmup_epochs:g} epochs, then {schedule.decay}"
    )
    if data.note:
        journal.note(data.note)
    if config.identical_data:
        journal.note(
            "IDENTICAL DATA: every rank trains on the same samples, so that more ranks "
            "add nothing; this run is a demonstration of a mistake"
        )


if __name__ == "__main__":
    try:
        main(config)
    except CourseError as error:
        sys.exit(f"train_cifar.py: {error}")
