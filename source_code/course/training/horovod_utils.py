"""What ranks have of Horovod: how often its thread wakes up, a GPU each, and averages over all of them."""

import contextlib
import math
import os
from collections.abc import Iterator

import horovod.tensorflow as hvd
import tensorflow as tf

from ddl.records.machine import threads_per_rank

CYCLE_TIME = "HOROVOD_CYCLE_TIME"
WAKE_UP_MS = 0.09  # what a wake-up takes from computation on 2 cores: all ranks exchange a message, whoever is ready
SAMPLE_MS = 0.66  # of a core per sample, the course's CNN; the minimum is flat, so other networks may differ much
LEAST_MS = 1.0  # Horovod's own
ALONE_MS = 25.0  # of a single rank, which exchanges nothing in a step


def cycle_time_ms(ranks: int, samples: int, threads: int = 1) -> float:
    """Return the cycle time that costs a training step least on CPUs, in milliseconds.

    In a step of t ms, a thread that wakes up every c ms takes p t / c from computation (p a wake-up), and
    gradients that are ready wait c / 2 on average for the next one. The sum is least at c = √(2 p t). The samples are
    those of a rank in a step, and the threads those that it computes with.
    """
    if ranks == 1:
        return ALONE_MS
    return max(LEAST_MS, math.sqrt(2 * WAKE_UP_MS * SAMPLE_MS * samples / threads))


def suitable_cycle_ms(global_batch: int) -> float | None:
    """Return `cycle_time_ms` for this rank, before `hvd.init()`; None on GPUs, where waking up takes nothing."""
    if tf.config.list_physical_devices("GPU"):
        return None
    ranks = int(os.environ.get("HOROVOD_SIZE", "1"))
    return cycle_time_ms(ranks, global_batch // ranks, threads_per_rank())


@contextlib.contextmanager
def cycle_time(milliseconds: float | None) -> Iterator[None]:
    """Have `hvd.init()` in this context read this cycle time; None or a user's own settings change nothing."""
    if milliseconds is None or CYCLE_TIME in os.environ or "HOROVOD_AUTOTUNE" in os.environ:
        yield
        return
    os.environ[CYCLE_TIME] = f"{milliseconds:.1f}"
    try:
        yield
    finally:
        del os.environ[CYCLE_TIME]


def pin_gpu():
    """Let this rank see one GPU only, and return it; None where there is none."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return None
    # The remainder: a scheduler may show each rank only its own GPU, under number 0.
    mine = gpus[hvd.local_rank() % len(gpus)]
    tf.config.set_visible_devices(mine, "GPU")
    tf.config.experimental.set_memory_growth(mine, True)
    return mine


def average(gradients: list, metrics, fp16: bool = False) -> tuple[list, tf.Tensor]:
    """Return gradients and metrics, averaged over ranks in one message.

    With `fp16` gradients are sent in half precision; metrics keep their digits, in a message of their own.
    """
    if hvd.size() == 1:
        return gradients, metrics
    if fp16:
        gradients = hvd.grouped_allreduce(gradients, op=hvd.Average, compression=hvd.Compression.fp16)
        return gradients, hvd.allreduce(metrics, op=hvd.Average)
    *gradients, metrics = hvd.grouped_allreduce([*gradients, metrics], op=hvd.Average)
    return gradients, metrics


def average_statistics(statistics: list[tf.Variable]) -> None:
    """Give all ranks one and the same model: the mean of what each keeps of the samples that it has seen."""
    if statistics and hvd.size() > 1:
        means = hvd.grouped_allreduce(statistics, op=hvd.Average, name="statistics")
        for variable, mean in zip(statistics, means, strict=True):
            variable.assign(mean)
