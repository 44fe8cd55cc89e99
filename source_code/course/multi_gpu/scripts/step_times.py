"""Times of the parts of a training step, with any number of Horovod workers and several models.

    ddl run --workers 2 step_times.py --widths 4 8 16 32
    ddl run --workers 1 step_times.py --widths 4 8 16 32     # the same without communication
    ddl run --workers 2 step_times.py --widths 16 --fusion-threshold-mb 0 --timeline
    ddl run --workers 2 step_times.py --model cnn            # train_cifar.py's step, as a whole

Each step runs in sequential parts, timed on every rank: input, forward and backward pass, averaging of gradients,
update. (A normal training averages one gradient while it computes the next.) The images are random numbers. One rank
averages nothing, and also times a part of the batch: the work of one of several ranks.

With --model, the step is train_cifar.py's, in one piece. Several ranks take it together and, alternately, independently
without averaging. The latter measures computation on a shared machine.
"""

from course.training.options import MODELS, SEED, Integer, Number, parser, run

SAMPLES = 2048


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--widths", type=Integer(most=4096), nargs="+", default=[8], metavar="N", help="models: first layers' filters")
    add("--model", choices=MODELS, help="use the network of train_cifar.py instead")
    add("--global-batch", type=Integer(most=SAMPLES), default=64, help="samples per pass over all ranks")
    add("--steps", type=Integer(), default=20, help="measured steps per model, after a warm-up")
    add("--part", type=Integer(), default=2, metavar="N", help="on one rank: time 1/N of the batch as well")
    add("--seed", type=SEED, default=0)
    # Communication
    size, interval = Number(0, 2**30), Number(above=0)
    add("--fusion-threshold-mb", type=size, metavar="MB", help="fuse gradients up to this size (0: no fusion)")
    add("--cycle-time-ms", type=interval, metavar="MS", help="Horovod's cycle time")
    add("--aggregate", type=Integer(), default=1, metavar="K", help="add up gradients of K passes, then average once")
    add("--fp16-compression", action="store_true", help="send gradients in half precision")
    add("--timeline", action="store_true", help="record Horovod's timeline")
    config = ours.parse_args(arguments)
    if config.model and (config.aggregate > 1 or config.fp16_compression):
        ours.error("--model does not support --aggregate and --fp16-compression")
    return config


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import math
import os
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

from course.data import DataSet, Order, shard
from course.shared.bench import PARTS, spread
from course.training import models, timeline
from course.training import optimizer as optimizers
from course.training.gpu import pin_gpu
from course.training.horovod_utils import average, broadcast, cycle_time, suitable_cycle_ms
from course.training.settings import Settings
from course.training.step import make_train_step
from course.training.training_log import Startup, Writer

CLASSES = 10
WARM_UP = 3  # steps of each model, which build the graph and fill caches
TURN = 5  # steps of one model before switching to the next


def main(config):
    startup = Startup()
    set_knobs(config)

    # Horovod: initialize, and pin each rank to one GPU, if there are any.
    with cycle_time(suitable_cycle_ms(config.global_batch) if config.model else None):
        hvd.init()
    startup.ends("init")
    initialized = time.time()
    rank, ranks = hvd.rank(), hvd.size()
    pin_gpu()

    # Horovod: shard.
    batches = shard(Order(SAMPLES, config.global_batch, config.seed).epoch(0), rank, ranks)
    pictures = random_pictures(config.seed)

    # Horovod: write on rank 0 only.
    writer = Writer(rank == 0)
    widths = [None] if config.model else config.widths
    total = len(widths) * config.steps
    writer.event("start", steps=total, world=ranks, global_batch=config.global_batch)

    # Horovod: wrap and broadcast, in Training and Whole.
    sizes = [Size(width, config, pictures, batches) for width in widths]
    # Interleaved, so that other load affects all sizes equally.
    for done in range(0, config.steps, TURN):
        for size in sizes:
            size.steps(min(TURN, config.steps - done))
        writer.event("step", step=len(sizes) * min(done + TURN, config.steps))
    measured = [size.measured() for size in sizes]
    for figures in measured:
        writer.print(in_words(figures))
    parts = {**startup.parts, "first step": sizes[0].first_step - initialized}
    samples = config.global_batch * config.aggregate
    writer.result(
        config=vars(config),
        ranks=ranks,
        per_rank_batch=samples // ranks,
        global_batch=samples,
        steps=total,
        samples=total * samples,
        images_per_s=measured[-1]["images_per_s"],
        time_to_first_step_s=sum(parts.values()),
        start_s=parts,
        sizes=measured,
        data={"name": "random images", "form": "generated", "train_samples": SAMPLES},
    )


def random_pictures(seed):
    """Return pictures, uint8 ``[samples, 32, 32, 3]``, and labels, int32 ``[samples]``."""
    draw = np.random.default_rng(seed)
    images = draw.integers(256, size=(SAMPLES, 32, 32, 3), dtype=np.uint8)
    return images, draw.integers(CLASSES, size=SAMPLES, dtype=np.int32)


def in_words(size):
    """Return a line with a model's measurements."""
    which = f"model {size['model']}" if size["model"] else f"width {size['width']}"
    medians = (f"{name} {1000 * size[f'{name}_s']['median']:.2f}" for name in PARTS)
    parts = "in one piece" if size["model"] else f"of which {', '.join(medians)}"
    return f"{which}: {size['parameters']:,} parameters, {1000 * size['step_s']['median']:.2f} ms a step, {parts}"


def set_knobs(config):
    """Set Horovod's environment variables, which it reads once, when initialized."""
    if config.fusion_threshold_mb is not None:
        os.environ["HOROVOD_FUSION_THRESHOLD"] = str(int(config.fusion_threshold_mb * 2**20))
    if config.cycle_time_ms is not None:
        os.environ["HOROVOD_CYCLE_TIME"] = str(config.cycle_time_ms)
    if config.timeline:
        timeline.request()


class Size:
    """A model and its measured steps: the full step, with a part of the batch, or without communication."""

    def __init__(self, width, config, pictures, batches):
        samples, ranks = batches.shape[1], hvd.size()
        training = Whole(config, pictures, samples) if config.model else Training(width, config)
        built = time.time()
        self.tasks = {"whole": Task(training, pictures, batches)}
        self.first_step = time.time()
        self.facts = {
            "width": width,
            "model": config.model,
            "tensors": len(training.weights),
            "all_reduces": training.all_reduces,
            "parameters": training.parameters,
            "gradient_bytes": 4 * training.parameters,
            "sent_bytes": (2 if config.fp16_compression else 4) * training.parameters,
            "first_step_s": self.first_step - built,
        }
        self.part = config.part
        if ranks == 1 and config.part > 1:
            part = Whole(config, pictures, samples // config.part) if config.model else training
            self.tasks["part"] = Task(part, pictures, shard(batches, 0, config.part))
        elif config.model:
            self.tasks["apart"] = Task(Whole(config, pictures, samples, exchange=False), pictures, batches)

    def steps(self, count):
        """Take `count` steps of each kind."""
        for task in self.tasks.values():
            hvd.allreduce(tf.zeros([1]), name="turn")  # start all ranks at the same time
            for _ in range(count):
                task.step()

    def measured(self):
        """Return this model's record."""
        measured = {name: task.measured() for name, task in self.tasks.items()}
        if "part" in measured:
            measured["part"] = {"of": self.part, **measured["part"]}
        return {**self.facts, **measured.pop("whole"), **measured}


class Training:
    """One model, and its step in parts: six 3×3 convolutions of `width` to 4 `width` filters."""

    all_reduces = None  # Horovod decides which gradients it fuses

    def __init__(self, width, config):
        tf.keras.utils.set_random_seed(config.seed)
        x = pictures = layers.Input((32, 32, 3))
        for filters in (width, 2 * width, 4 * width):
            for _ in range(2):
                x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
            x = layers.MaxPool2D()(x)
        logits = layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x))
        model = tf.keras.Model(pictures, logits)
        self.weights = weights = model.trainable_variables
        self.parameters, self.passes = model.count_params(), config.aggregate
        optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9)
        optimizer.build(weights)
        broadcast(model.variables)
        compression = hvd.Compression.fp16 if config.fp16_compression else hvd.Compression.none

        @tf.function(autograph=False)
        def gradients(x, y):
            with tf.GradientTape() as tape:
                logits = model(tf.cast(x, tf.float32) / 255)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
            return tape.gradient(loss, weights)

        @tf.function(autograph=False)
        def average(tensors):
            # Horovod: one all-reduce a gradient, as its optimizer does; it may fuse them.
            return [
                hvd.allreduce(tensor, op=hvd.Average, compression=compression, name=f"width{width}.gradient{index}")
                for index, tensor in enumerate(tensors)
            ]

        @tf.function(autograph=False)
        def update(tensors):
            optimizer.apply_gradients(zip(tensors, weights))

        self.gradients, self.average, self.update = gradients, average, update
        self.add = tf.function(lambda one, two: [a + b for a, b in zip(one, two)], autograph=False)

    def step(self, images, labels, batches):
        """Take one step on some batches, one pass each; return the seconds of its four parts."""
        seconds = np.zeros(4)
        total = None
        for numbers in batches:
            start = time.perf_counter()
            x, y = tf.constant(images[numbers]), tf.constant(labels[numbers])
            loaded = wait()
            new = self.gradients(x, y)
            total = self.add(total, new) if total else new
            computed = wait()
            seconds[:2] += loaded - start, computed - loaded
        averaged = self.average(total) if hvd.size() > 1 else total
        communicated = wait()
        self.update(averaged)
        seconds[2:] = communicated - computed, wait() - communicated
        return seconds


class Whole:
    """The step of train_cifar.py with the recipe batch_norm, in one piece: its parts are not known.

    Without `exchange`, each rank trains independently.
    """

    all_reduces = 1

    def __init__(self, config, pictures, samples, exchange=True):
        settings = Settings(seed=config.seed, global_batch=config.global_batch)
        model = models.build(config.model, norm="batch", seed=config.seed)
        self.weights, self.passes, self.steps = model.trainable_variables, 1, 0
        self.parameters = sum(math.prod(weight.shape) for weight in self.weights)
        data = DataSet("random images", "generated", *pictures, *pictures, tuple(map(str, range(CLASSES))))
        self.train_step = make_train_step(
            model,
            optimizers.make("sgd", 0.01, self.weights),
            data,
            settings,
            slice(0, samples),
            average if exchange else lambda gradients, metrics, fp16: (gradients, metrics),
        )

    def step(self, images, labels, batches):
        """Take one step; return its seconds: of the input, of the rest, and twice 0."""
        start = time.perf_counter()
        numbers = tf.constant(batches[0])
        loaded = wait()
        self.train_step(numbers, self.steps, 0.01, 0.0)
        self.steps += 1
        return np.array([loaded - start, wait() - loaded, 0, 0])


def wait():
    """Wait for all devices, and return the time."""
    tf.test.experimental.sync_devices()
    return time.perf_counter()


class Task:
    """A model on batches of one size: takes steps and records their times, without the warm-up."""

    def __init__(self, training, pictures, batches):
        self.training, self.pictures, self.batches = training, pictures, batches
        self.seconds = []
        for _ in range(WARM_UP):
            self.step()
        self.seconds.clear()

    def step(self):
        first = len(self.seconds) * self.training.passes
        rows = np.arange(first, first + self.training.passes) % len(self.batches)
        self.seconds.append(self.training.step(*self.pictures, self.batches[rows]))

    def measured(self):
        """Return medians and quartiles of the parts of a step, in seconds, over all ranks.

        An early rank waits for the others inside the all-reduce: the last rank's time there is communication, and
        anything beyond it on the others is waiting.
        """
        every = hvd.allgather(tf.constant([self.seconds]), name="seconds").numpy()
        mean, least = every.mean(axis=0), every[:, :, 2].min(axis=0)
        parts = (mean[:, 0], mean[:, 1], mean[:, 2] - least, least, mean[:, 3])
        step = mean.sum(axis=1)
        samples = self.batches.shape[1] * self.training.passes * hvd.size()
        return {
            "images_per_s": samples * len(step) / step.sum(),
            "rank_steps_s": every.sum(axis=2),
            "step_s": spread(step),
            **{f"{name}_s": spread(part) for name, part in zip(PARTS, parts, strict=True)},
        }


if __name__ == "__main__":
    run(main, config)
