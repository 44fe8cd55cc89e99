"""Horovod helpers: cycle time, broadcasts and averages over ranks."""

import contextlib
import math
import os
from collections.abc import Iterator

import horovod.tensorflow as hvd
import tensorflow as tf

from ddl.records.machine import threads_per_rank

CYCLE_TIME = "HOROVOD_CYCLE_TIME"
WAKE_UP_MS = 0.09  # cost of a wake-up on 2 cores: all ranks exchange a message, ready or not
SAMPLE_MS = 0.66  # core time per sample of the course's CNN; the minimum is flat, so it need not be exact
LEAST_MS = 1.0  # Horovod's own
ALONE_MS = 25.0  # for a single rank, which exchanges nothing


def cycle_time_ms(ranks: int, samples: int, threads: int = 1) -> float:
    """Return the cycle time with the least overhead on CPUs, in milliseconds.

    In a step of t ms, a thread that wakes up every c ms takes p t / c from computation (p per wake-up), and gradients
    wait c / 2 on average for the next one. The sum is least at c = √(2 p t). The samples and threads are per rank and
    step.
    """
    if ranks == 1:
        return ALONE_MS
    return max(LEAST_MS, math.sqrt(2 * WAKE_UP_MS * SAMPLE_MS * samples / threads))


def suitable_cycle_ms(global_batch: int) -> float | None:
    """Return `cycle_time_ms` for this rank, before `hvd.init()`; None on GPUs, where wake-ups are free."""
    if tf.config.list_physical_devices("GPU"):
        return None
    ranks = int(os.environ.get("HOROVOD_SIZE", "1"))
    return cycle_time_ms(ranks, global_batch // ranks, threads_per_rank())


@contextlib.contextmanager
def cycle_time(milliseconds: float | None) -> Iterator[None]:
    """Set the cycle time for `hvd.init()` in this context, unless it is None or the user has set one."""
    if milliseconds is None or CYCLE_TIME in os.environ or "HOROVOD_AUTOTUNE" in os.environ:
        yield
        return
    os.environ[CYCLE_TIME] = f"{milliseconds:.1f}"
    try:
        yield
    finally:
        del os.environ[CYCLE_TIME]


def broadcast(variables: list[tf.Variable]) -> None:
    """Give all ranks rank 0's values of these variables, in place where Horovod can.

    In place is 0.2 s faster the first time. A Horovod that was built without GPU operations has no GPU kernel for it
    (mpi_ops.cc, ``HorovodBroadcastInplaceResource``); TensorFlow then refuses variables that are on a GPU.
    """
    in_place = not tf.config.get_visible_devices("GPU") or bool(hvd.nccl_built())
    hvd.broadcast_variables(variables, root_rank=0, inplace=in_place)


def average(gradients: list, metrics, fp16: bool = False) -> tuple[list, tf.Tensor]:
    """Average gradients and metrics over ranks in one message.

    With `fp16`, gradients are sent in half precision, and metrics in a second message at full precision.
    """
    if hvd.size() == 1:
        return gradients, metrics
    if fp16:
        gradients = hvd.grouped_allreduce(gradients, op=hvd.Average, compression=hvd.Compression.fp16)
        return gradients, hvd.allreduce(metrics, op=hvd.Average)
    *gradients, metrics = hvd.grouped_allreduce([*gradients, metrics], op=hvd.Average)
    return gradients, metrics


def average_statistics(statistics: list[tf.Variable]) -> None:
    """Average the statistics that each rank keeps of its own samples, so that all ranks have the same model."""
    if statistics and hvd.size() > 1:
        means = hvd.grouped_allreduce(statistics, op=hvd.Average, name="statistics")
        for variable, mean in zip(statistics, means, strict=True):
            variable.assign(mean)
