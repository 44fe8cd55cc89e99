"""Records that a script writes: rank 0's events while it trains and its result, and each rank's checksums."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsInt

from ddl.records.checksums import summary_of
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import append_json_line, read_json


class Recorder:
    """Writes events while training and the result at the end, both on rank 0 only; and checksums, on every rank.

    Outside a launched run (no ``DDL_RUN_DIR``) it writes nothing, so scripts also work with plain ``python`` or
    ``horovodrun``.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = RunFolder(Path(folder)) if folder else RunFolder.here()
        self._lost, self._why = 0, ""  # events since the last one that was written, and what was in the way

    def event(self, name: str, **fields: Any) -> None:
        """Append ``{"event": name, "time": now, **fields}`` to ``events.jsonl``.

        If it cannot be written, for example because the disk is full, training continues. The log says so at once, and
        a note once there is room.
        """
        if self.folder:
            self._append(self.folder.events, {"event": name, "time": time.time(), **fields})

    def checksums(self, step: SupportsInt, arrays: Mapping[str, Any]) -> None:
        """Record checksums of this rank's named arrays after a step: updates, gradients or weights.

        `Run.diverged` finds the first one that differs between ranks or runs. Arrays are NumPy's, or tensors or
        variables of any framework, of any shape and numeric dtype; both count. InputError if one is none, such as a
        sparse gradient. The step may be a variable, such as Keras's ``optimizer.iterations``.
        """
        if self.folder:
            rank = int(os.environ.get("HOROVOD_RANK") or os.environ.get("RANK", "0"))
            found = {name: summary_of(name, array) for name, array in arrays.items()}
            self._append(self.folder.checksums(rank), {"step": int(step), "arrays": found})

    def _append(self, path: Path, line: Mapping) -> None:
        assert self.folder
        try:
            if self._lost:
                message = f"{self._lost} records could not be written meanwhile: {self._why}"
                append_json_line(self.folder.events, {"event": "note", "time": time.time(), "message": message})
                self._lost = 0
            append_json_line(path, line)
        except OSError as error:
            if not self._lost:
                print(f"{error}. Training goes on, but its records are lost", file=sys.stderr, flush=True)
            self._lost, self._why = self._lost + 1, str(error)

    def result(self, mapping: Mapping) -> None:
        """Write ``result.json``, adding the run's id and name."""
        if self.folder:
            job = read_json(self.folder.job) or {}
            names = {key: job[key] for key in ("id", "name") if job.get(key)}
            self.folder.write_json(self.folder.result, {**names, **mapping})
