"""Compute precision: float32, TF32, or bfloat16 on hardware that supports it.

TF32 is float32 whose products and convolutions round their factors to 10 bits of fraction; sums stay in float32. GPUs
have it from compute capability 8.0, and TensorFlow uses it by default.

bfloat16 has float32's range and 8 of its 24 significant bits, so it needs no loss scaling. Weights, gradients, batch
statistics, optimizer slots, logits and loss stay in float32 (Micikevicius et al. 2018, arXiv:1710.03740, section 3.1;
Kalamkar et al. 2019, arXiv:1905.12322).
"""

import re
import sys
from pathlib import Path

from course.training.recipes import SettingError

PRECISIONS = ("tf32", "float32", "bfloat16", "auto")
CPUINFO = Path("/proc/cpuinfo")
INSTRUCTIONS = ("amx_bf16", "avx512_bf16")  # the names of AMX and AVX512 in /proc/cpuinfo
AMPERE = (8, 0)  # first compute capability with TF32 and bfloat16 tensor cores


def instructions() -> tuple[str, ...]:
    """Return the processor's subset of `INSTRUCTIONS`."""
    flags = re.search(r"^flags\s*:(.*)$", CPUINFO.read_text() if CPUINFO.exists() else "", re.MULTILINE)
    return tuple(name for name in INSTRUCTIONS if flags and name in flags[1].split())


def choose(asked: str, capability: tuple[int, int] | None = None) -> str:
    """Return "float32", "tf32" or "bfloat16" for one of `PRECISIONS`.

    "tf32" is float32 where there is no TF32, such as on a processor.

    "auto" chooses bfloat16 where it is faster: on GPUs from compute capability 8.0 and on processors with AMX. On a
    Xeon with AMX, it was 2.2 times as fast as float32 with the small network and 1.4 times with the residual one; with
    AVX512_BF16 alone (``ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16``), 0.75 times with both, so "auto" ignores it. (Processor
    time of one thread, medians of seven pairs of steps.)

    `capability` is the GPU's compute capability; None on a processor. Raises SettingError for bfloat16 on a processor
    without instructions for it.
    """
    float32 = "tf32" if asked != "float32" and capability and capability >= AMPERE else "float32"
    if asked in ("tf32", "float32"):
        return float32
    has = instructions()
    if asked == "bfloat16":
        if capability is None and not has:
            raise SettingError(
                "--precision bfloat16 needs a GPU, or a processor with AMX or AVX512_BF16; this machine has no GPU, "
                f"and its processor has neither {' nor '.join(INSTRUCTIONS)}: leave the option out, or use auto"
            )
        return asked
    faster = "amx_bf16" in has if capability is None else capability >= AMPERE
    return "bfloat16" if faster else float32


def set_precision(asked: str, gpu=None) -> str:
    """Choose the precision, set it for models built from now on, and return it.

    Every rank calls this, with the `tf.config.PhysicalDevice` of its GPU if it has one. With "auto", no rank uses
    bfloat16 unless all can.
    """
    card = _capability(gpu) if gpu else None
    precision = choose(asked, card)
    if asked == "auto":
        import horovod.tensorflow as hvd
        import tensorflow as tf

        can = tf.constant(float(precision == "bfloat16"))
        if hvd.size() > 1 and not float(hvd.allreduce(can, op=hvd.Min, name="precision")):
            precision = choose("tf32", card)
    return compute_in(precision)


def compute_in(precision: str) -> str:
    """Make TensorFlow compute in a precision that `choose` has returned, from now on; return it."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(precision != "float32")
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16" if precision == "bfloat16" else "float32")
    return precision


def current() -> str:
    """Return the precision in which this process multiplies float32 matrices: "tf32" or "float32".

    Without TensorFlow it is "float32".
    """
    if not (tf := sys.modules.get("tensorflow")) or not tf.config.experimental.tensor_float_32_execution_enabled():
        return "float32"
    return choose("tf32", max(map(_capability, tf.config.get_visible_devices("GPU")), default=None))


def _capability(gpu):
    import tensorflow as tf

    return tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
