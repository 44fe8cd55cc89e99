"""Memory statistics of a process: live TensorFlow tensors and resident memory."""

import contextlib
import ctypes

import psutil
import tensorflow as tf

from ddl.errors import InputError

CLEAR_PEAK = "5"  # proc(5), clear_refs: reset the peak of resident memory
GIVE_BACK = -3, 2**18  # mallopt(3), M_MMAP_THRESHOLD: return memory freed by NumPy and Gloo at once


class Memory:
    """Memory in bytes since this object was created.

    Tensors are counted where the model is: on this rank's GPU if it has one, otherwise in the processor's memory.
    Raises InputError if TensorFlow computes on a processor without oneDNN, which counts tensors there.
    """

    def __init__(self):
        ctypes.CDLL(None).mallopt(*GIVE_BACK)
        self._device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
        try:
            self._start = tf.config.experimental.get_memory_info(self._device)["current"]
        except ValueError as error:
            raise InputError(f"{error}: TensorFlow counts tensors with TF_ENABLE_ONEDNN_OPTS=1 only") from None
        self._resident = psutil.Process().memory_info().rss
        tf.config.experimental.reset_memory_stats(self._device)
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write(CLEAR_PEAK)

    def alive(self, which: str = "current") -> int:
        """Return the bytes of live tensors, or at their "peak"."""
        return tf.config.experimental.get_memory_info(self._device)[which] - self._start

    def resident_peak(self) -> int:
        """Return the growth of peak resident memory (``VmHWM``)."""
        with open("/proc/self/status") as file:
            peak = next(line for line in file if line.startswith("VmHWM"))
        return 1024 * int(peak.split()[1]) - self._resident
