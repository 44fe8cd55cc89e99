"""Compute precision: float32, or bfloat16 on hardware that supports it.

bfloat16 has float32's range and 8 of its 24 significant bits, so it needs no loss scaling. Weights, gradients, batch
statistics, optimizer slots, logits and loss stay in float32 (Micikevicius et al. 2018, arXiv:1710.03740, section 3.1;
Kalamkar et al. 2019, arXiv:1905.12322).
"""

import re
from pathlib import Path

from course.training.recipes import SettingError

PRECISIONS = ("float32", "bfloat16", "auto")
CPUINFO = Path("/proc/cpuinfo")
INSTRUCTIONS = ("amx_bf16", "avx512_bf16")  # the names of AMX and AVX512 in /proc/cpuinfo
AMPERE = (8, 0)  # first compute capability with bfloat16 tensor cores


def instructions() -> tuple[str, ...]:
    """Return the processor's subset of `INSTRUCTIONS`."""
    flags = re.search(r"^flags\s*:(.*)$", CPUINFO.read_text() if CPUINFO.exists() else "", re.MULTILINE)
    return tuple(name for name in INSTRUCTIONS if flags and name in flags[1].split())


def choose(asked: str, capability: tuple[int, int] | None = None) -> str:
    """Return "float32" or "bfloat16" for one of `PRECISIONS`.

    "auto" chooses bfloat16 where it is faster: on GPUs from compute capability 8.0 and on processors with AMX. On a
    Xeon with AMX, it was 2.2 times as fast as float32 with the small network and 1.4 times with the residual one; with
    AVX512_BF16 alone (``ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16``), 0.75 times with both, so "auto" ignores it. (Processor
    time of one thread, medians of seven pairs of steps.)

    `capability` is the GPU's compute capability; None on a processor. Raises SettingError for bfloat16 on a processor
    without instructions for it.
    """
    if asked == "float32":
        return asked
    has = instructions()
    if asked == "bfloat16":
        if capability is None and not has:
            raise SettingError(
                "--precision bfloat16 needs a GPU, or a processor with AMX or AVX512_BF16; this machine has no GPU, "
                f"and its processor has neither {' nor '.join(INSTRUCTIONS)}: leave the option out, or use auto"
            )
        return asked
    faster = "amx_bf16" in has if capability is None else capability >= AMPERE
    return "bfloat16" if faster else "float32"


def set_precision(asked: str, gpu=None) -> str:
    """Choose the precision, set it for models built from now on, and return it.

    Every rank calls this, with the `tf.config.PhysicalDevice` of its GPU if it has one. With "auto", all ranks use
    float32 if one needs it.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    details = tf.config.experimental.get_device_details(gpu) if gpu else {}
    precision = choose(asked, details.get("compute_capability", (0, 0)) if gpu else None)
    if asked == "auto" and hvd.size() > 1:
        every = hvd.allreduce(tf.constant(float(precision == "bfloat16")), op=hvd.Min, name="precision")
        precision = "bfloat16" if float(every) else "float32"
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16" if precision == "bfloat16" else "float32")
    return precision
