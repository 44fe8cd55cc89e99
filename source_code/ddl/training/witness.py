"""What each rank of `bug_hunt.py` writes down as it trains; `ddl.analysis.mistakes` reads it."""

import zlib

import numpy

from ddl.records.files import replacing
from ddl.records.folder import RunFolder

__all__ = ["Witness", "checksum"]


def checksum(arrays) -> str:
    """Return the CRC-32 of arrays, one after another, as eight hexadecimal digits."""
    value = 0
    for array in arrays:
        value = zlib.crc32(numpy.ascontiguousarray(array).tobytes(), value)
    return f"{value:08x}"


class Witness:
    """Writes down what a rank itself saw; outside a run it writes nothing."""

    def __init__(self, rank: int):
        self.rank = rank
        self.folder = RunFolder.here()
        if self.folder:
            self.folder.witness(rank).unlink(missing_ok=True)  # of an earlier start of this job

    def tell(self, event: str, **fields):
        """Append ``{"event": event, **fields}`` to ``witness-<rank>.jsonl``."""
        if self.folder:
            self.folder.append(self.folder.witness(self.rank), {"event": event, **fields})

    def keep_weights(self, weights) -> str | None:
        """Write the arrays to the run's ``weights.npz``; return its name, or None outside a run."""
        if not self.folder:
            return None
        path = self.folder.weights
        with replacing(path) as file:  # two ranks that write at the same time would leave a file of both
            numpy.savez(file, *weights)
        return path.name
