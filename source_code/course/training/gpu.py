"""This rank's GPU: pinning, memory, and its first use by this TensorFlow."""

import os
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from course.training.training_log import Writer

CACHE = "~/.nv/ComputeCache"  # the driver's folder for compiled kernels, unless CUDA_CACHE_PATH names another


def pin_gpu():
    """Pin this rank to one GPU and return it; None without GPUs.

    On rank 0, note if the first steps will take longer because the driver has to compile TensorFlow's kernels.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return None
    # Modulo, because a scheduler may show each rank only its own GPU, as number 0.
    mine = gpus[hvd.local_rank() % len(gpus)]
    tf.config.set_visible_devices(mine, "GPU")
    tf.config.experimental.set_memory_growth(mine, True)
    details = tf.config.experimental.get_device_details(mine)
    if note := first_use(details.get("compute_capability", (0, 0))):
        Writer(hvd.rank() == 0).note(note)
    return mine


def first_use(card: tuple[int, int]) -> str:
    """Return a note if the driver has to compile TensorFlow's kernels for a card of this compute capability, or "".

    TensorFlow 2.15.1 has no machine code for capability 8.0 and above, only portable code, which the driver compiles
    when a kernel is first used. It keeps the result: about a minute on an H200 the first time, and seconds afterward.
    """
    built = tf.sysconfig.get_build_info().get("cuda_compute_capabilities", ())
    folder = Path(os.environ.get("CUDA_CACHE_PATH") or CACHE).expanduser()
    if not built or has_machine_code(built, card) or (folder.is_dir() and any(folder.iterdir())):
        return ""
    return (
        f"first use of this GPU (compute capability {card[0]}.{card[1]}): the driver compiles TensorFlow's kernels for "
        f"it, which takes about a minute. It keeps them in {folder}, so later runs start at once"
    )


def has_machine_code(built: list[str], card: tuple[int, int]) -> bool:
    """Return whether a build has machine code for a card: of the same major and at most the card's minor version.

    `built` names what a build has: ``sm_75`` is machine code for capability 7.5, ``compute_80`` portable code.
    """
    codes = [name.removeprefix("sm_") for name in built if name.startswith("sm_")]
    return any(int(code[:-1]) == card[0] and int(code[-1]) <= card[1] for code in codes)
