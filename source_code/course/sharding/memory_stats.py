"""How much memory a process has: TensorFlow's tensors that are alive, and what the operating system has given it."""

import contextlib
import ctypes

import psutil
import tensorflow as tf

from ddl.errors import InputError

DEVICE = "CPU:0"
CLEAR_PEAK = "5"  # proc(5), clear_refs: begin the peak of resident memory anew
GIVE_BACK = -3, 2**18  # mallopt(3), M_MMAP_THRESHOLD: what NumPy and Gloo free goes back to the system at once


class Memory:
    """Bytes since this object was made; of tensors, those in the processor's memory.

    TensorFlow counts them where it uses oneDNN; InputError where it does not.
    """

    def __init__(self):
        ctypes.CDLL(None).mallopt(*GIVE_BACK)
        self._start, self._resident = self._tensors("current"), psutil.Process().memory_info().rss
        self.begin()

    def begin(self):
        """Begin both peaks anew."""
        tf.config.experimental.reset_memory_stats(DEVICE)
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write(CLEAR_PEAK)

    def alive(self) -> int:
        """Return the bytes of tensors that are alive now."""
        return self._tensors("current") - self._start

    def peak(self) -> int:
        """Return the most bytes of tensors that were alive at once."""
        return self._tensors("peak") - self._start

    def resident_peak(self) -> int:
        """Return by how much resident memory has grown at its peak (``VmHWM``)."""
        with open("/proc/self/status") as file:
            peak = next(line for line in file if line.startswith("VmHWM"))
        return 1024 * int(peak.split()[1]) - self._resident

    def _tensors(self, which):
        try:
            return tf.config.experimental.get_memory_info(DEVICE)[which]
        except ValueError as error:
            raise InputError(f"{error}: TensorFlow counts tensors with TF_ENABLE_ONEDNN_OPTS=1 only") from None
