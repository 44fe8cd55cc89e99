"""Train a network on CIFAR-10 with any number of Horovod workers.

    ddl run --workers 2 train_cifar.py --recipe warmup
    ddl run --workers 2 train_cifar.py --recipe lamb --global-batch 1024 --epochs 8
    horovodrun --gloo -np 2 python source_code/train_cifar.py --recipe batch_norm
    python source_code/train_cifar.py --steps 20        # one worker, no run folder

A recipe changes one thing in the one before it (course/training/recipes.py). Under `ddl run` rank 0 writes events.jsonl
while it trains and result.json at the end; elsewhere it only prints. A job that a scheduler is about to end writes a
checkpoint; restarted in its folder, it resumes from there.
"""

from course.data.dataset import HELD_OUT, VALIDATION_SAMPLES
from course.training.options import MODELS, SEED, Integer, Number, add_data, parser, run
from course.training.precision import PRECISIONS, set_precision
from course.training.recipes import OPTIMIZERS, RECIPES
from course.training.schedule import DECAYS

STATISTICS_SAMPLES = 1_000  # images for recomputing batch norm's statistics
CLEAN_SAMPLES = 2_000  # training images for the evaluation without augmentation


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    above_0 = Number(above=0)
    add("--recipe", default="base", choices=RECIPES)
    add("--model", default="cnn", choices=MODELS)
    # Data
    add_data(ours)
    validation = f"validation: {VALIDATION_SAMPLES:,} training images set aside (default: test)"
    add("--held-out", default="test", choices=HELD_OUT, help=validation)
    add("--no-augment", action="store_true", help="no random flips and shifts")
    # How long
    add("--epochs", type=above_0, default=8)
    add("--steps", type=Integer(), help="train for this many steps instead")
    share = Number(above=0, most=1)
    add("--target-accuracy", type=share, metavar="A", help="stop at the first evaluation with this accuracy")
    add("--target-loss", type=above_0, metavar="L", help="stop when an epoch ends with this clean loss")
    add("--evaluate-epochs", type=Integer(), default=1, metavar="N", help="at the end of each N-th epoch (default: 1)")
    add("--evaluate-every", type=Integer(0), default=0, metavar="STEPS", help="as well as at the end of epochs")
    # Samples of a step
    add("--global-batch", type=Integer(), default=64, help="samples per step over all ranks")
    add("--backward-passes-per-step", type=Integer(), default=1, metavar="K", help="passes per average")
    add("--ghost-batch", type=Integer(), metavar="N", help="choose the passes so that batch norm sees N samples")
    add("--statistics", default="moving", choices=("moving", "recomputed"), help="of batch norm, in evaluations")
    # Optimizer and learning rate (default: the recipe's)
    add("--optimizer", choices=OPTIMIZERS)
    add("--learning-rate", type=above_0, metavar="RATE", help="at batch 64, before scaling (default: the optimizer's)")
    add("--warmup-epochs", type=Number(0))
    add("--warmup-start", type=share, metavar="F", help="warm up from this share (default: rate at batch 64)")
    add("--schedule", default="cosine", choices=DECAYS, help="after the warm-up (default: cosine)")
    add("--rates", metavar="FILE", help="the learning rate of each step, a list in JSON, instead of a schedule")
    add("--momentum", type=Number(0, 1), metavar="M", help="of sgd (Nesterov's; 0: plain) and lars (default: 0.9)")
    add("--trust", type=above_0, metavar="T", help="of lars (default: 0.02)")
    add("--bias-rate", type=above_0, metavar="F", help="of lars: × the rate, for biases and norms (default: 1)")
    add("--weight-decay", type=Number(0), default=0.0)
    add("--seed", type=SEED, default=0, help="seed of initial weights, order and augmentation")
    # Workers
    add("--sync-bn", action="store_true", help="batch statistics over all ranks")
    add("--fp16-compression", action="store_true", help="send gradients in half precision")
    add("--precision", default="tf32", choices=PRECISIONS, help="auto: the fastest (default: tf32 on GPUs with it)")
    add("--noise-scale", action="store_true", help="measure the gradient noise scale")
    add("--timeline", action="store_true", help="record Horovod's timeline")
    # Keeping and interrupting
    add("--keep-weights", action="store_true", help="save the final weights in the run's folder")
    add("--checkpoint-every", type=Integer(0), default=0, metavar="STEPS")
    add("--resume", metavar="FOLDER_OR_RUN", help="resume from this run's checkpoint")
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import math

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.data import Order, load
from course.data.augment import normalize
from course.data.tensors import constant
from course.training import models, optimizer, timeline
from course.training.checkpoint import Checkpoints, folder
from course.training.gpu import pin_gpu
from course.training.horovod_utils import average_statistics, broadcast, cycle_time, suitable_cycle_ms
from course.training.loop import DIVERGED, LEAVING, make_evaluation, train
from course.training.noise import NoiseScale
from course.training.preemption import Preemption
from course.training.rank_log import keep_weights
from course.training.schedule import schedule_of
from course.training.settings import Settings
from course.training.step import make_train_step
from course.training.training_log import Startup, TrainingLog
from ddl.records.folder import StorageError


def main(config):
    """Train and return the contents of result.json, or None if the job must be requeued."""
    startup = Startup()  # times until the first step
    preemption = Preemption()  # handle the scheduler's warning of the time limit from now on
    if config.timeline:
        timeline.request()
    if config.keep_weights:
        folder()  # raises an error now if there is none

    # Horovod: initialize. From here on this process knows its rank and how many there are. Synchronous batch norm
    # communicates many times per step, so a short cycle is faster.
    with cycle_time(None if config.sync_bn else suitable_cycle_ms(config.global_batch)):
        hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    startup.ends("init")

    # Horovod: pin each rank to one GPU, where there are any.
    precision = set_precision(config.precision, pin_gpu())

    # Horovod: shard. One order of samples for all; each rank takes its part of every batch.
    data = load(
        config.data_set, train_samples=config.train_samples, test_samples=config.test_samples, held_out=config.held_out
    )
    order = Order(data.train_samples, config.global_batch, config.seed)
    settings = Settings.of(config, order.steps, ranks)
    part = rank_slice(settings, rank)
    startup.ends("data")

    # Horovod: scale the learning rate with the global batch, if the recipe says so.
    schedule = schedule_of(settings)
    model = models.build(settings.model, norm=settings.norm, sync_norm=settings.sync_bn, seed=settings.seed)
    optim = optimizer.make(settings.optimizer, schedule(0), model.trainable_variables, **settings.of_optimizer())
    # Horovod: wrap. The step averages the gradients of all ranks before it applies them.
    train_step = make_train_step(model, optim, data, settings, part)
    evaluations = make_evaluations(model, data, settings)
    startup.ends("model")

    # Horovod: broadcast rank 0's weights and optimizer state, fresh or from a checkpoint: this
    # run's own if it was interrupted, or another's.
    variables, same = model.variables + optim.variables(), comparable(settings, data, precision)
    checkpoints = Checkpoints(variables, same, settings.checkpoint_every, model.non_trainable_variables)
    state = checkpoints.resume(settings.resume)
    broadcast(variables)
    startup.ends("broadcast")

    # Horovod: write on rank 0 only.
    steps, first = settings.total_steps, state.get("step", 0)
    log = TrainingLog(rank == 0, steps, order.steps, settings.global_batch, state.get("log"), startup=startup)
    announce(log, settings, ranks, data, schedule, precision)
    noise = NoiseScale(settings.ghost_batch, settings.global_batch) if settings.noise_scale else None
    world = {"world": ranks, "per_rank_batch": settings.per_rank_batch}
    log.start(first, **world, data=data.describe(), precision=precision)

    def one_step(step, batch):
        rate = schedule(step / order.steps)
        with tf.device("CPU:0"):  # a GPU would get each number at once, and keep us waiting for the step before
            flags = tf.constant(rate), tf.constant(float(preemption.announced))
        return train_step(batch[part], step, *flags), rate

    stopped_by = train(log, order.batches(first, steps), one_step, checkpoints, noise, **evaluations)
    return finish(log, settings, model, noise, stopped_by, facts(settings, ranks, model, data, schedule, precision))


def make_evaluations(model, data, settings):
    """Return the evaluations for `train`: functions, intervals and stopping criterion."""
    seen = slice(min(CLEAN_SAMPLES, data.train_samples))
    return {
        "evaluate": make_evaluation(model, data.test_images, data.test_labels, recomputing(model, settings, data)),
        "evaluate_clean": make_evaluation(model, data.train_images[seen], data.train_labels[seen]),
        "every": settings.evaluate_every,
        "epochs": settings.evaluate_epochs,
        "stop": lambda row: stop(settings, row),
    }


def stop(settings, row):
    """Return why to stop at this evaluation, or None."""
    if not math.isfinite(row["loss"]):
        return DIVERGED
    accuracy = settings.target_accuracy is not None and row["test_accuracy"] >= settings.target_accuracy
    loss = settings.target_loss is not None and row.get("clean_loss", math.inf) <= settings.target_loss
    return "target" if accuracy or loss else None


def rank_slice(settings, rank):
    """Return which part of every global batch this rank trains on."""
    each = settings.per_rank_batch
    return slice(rank * each, (rank + 1) * each)


def recomputing(model, settings, data):
    """Return a function that prepares batch norm's statistics for an evaluation."""
    if settings.statistics == "recomputed":
        seen = constant(data.train_images[:STATISTICS_SAMPLES])
        if recompute := models.recomputing(model, normalize(seen)):
            return recompute
    # Horovod: average local statistics, or each rank would evaluate a different model.
    return lambda: average_statistics(model.non_trainable_variables)


def comparable(settings, data, precision):
    """Return the settings that a resumed training must match."""
    names = ("model", "recipe", "optimizer", "sync_bn", "seed", "global_batch", "no_augment")
    return {name: getattr(settings, name) for name in names} | data.describe() | {"precision": precision}


def facts(settings, ranks, model, data, schedule, precision):
    """Return the settings for result.json."""
    names = "recipe model global_batch backward_passes_per_step held_out seed".split()
    return {
        "config": vars(settings),
        **{name: getattr(settings, name) for name in names},
        "parameters": sum(int(np.prod(weight.shape)) for weight in model.trainable_variables),
        "data": data.describe(),
        "ranks": ranks,
        "per_rank_batch": settings.per_rank_batch,
        "ghost_batch": settings.ghost_batch,
        "learning_rate": schedule.peak,
        "precision": precision,
    }


def announce(log, settings, ranks, data, schedule, precision):
    """Print the configuration and the data."""
    facts = data.describe()
    log.print(
        f"data: {facts['name']} ({facts['form']}), {facts['train_samples']} training and "
        f"{facts['test_samples']} {facts['held_out']} images\n"
        f"batch: {ranks} ranks x {settings.per_rank_batch} = {settings.global_batch}\n"
        f"recipe {settings.recipe}: norm {settings.norm}, {settings.optimizer}, learning rate "
        f"{settings.learning_rate:g} at batch 64, {schedule.peak:g} at this one, "
        f"warm-up {schedule.warmup_epochs:g} epochs, then {schedule.decay}"
    )
    if data.note:
        log.note(data.note)
    log.print(f"computes in {precision}")


def finish(log, settings, model, noise, stopped_by, facts):
    """Save the weights if requested; write and return the result if the training is finished."""
    if stopped_by == LEAVING:
        return None
    if settings.keep_weights and log.recorder:
        try:
            keep_weights(folder(), model.get_weights())
        except StorageError as error:
            log.note(f"{error}. The weights are lost, the results are not")
    return log.result(
        **facts,
        stopped_by=stopped_by or ("steps" if settings.steps else "epochs"),
        diverged=stopped_by == DIVERGED,
        noise_scale=noise.value if noise else None,
    )


if __name__ == "__main__":
    run(main, config)
