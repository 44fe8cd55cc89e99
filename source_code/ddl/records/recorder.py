"""Records that rank 0's script writes: events while it trains, and a result."""

import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddl.records.folder import RunFolder, StorageError
from ddl.records.jsonfiles import append_json_line, read_json


class Recorder:
    """Writes events while training and the result at the end. Create one on rank 0 only.

    Outside a launched run (no ``DDL_RUN_DIR``) it writes nothing, so scripts also work with plain ``python`` or
    ``horovodrun``.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = RunFolder(Path(folder)) if folder else RunFolder.here()
        self._lost = 0  # events since the last one that was written

    def event(self, name: str, **fields: Any) -> None:
        """Append ``{"event": name, "time": now, **fields}`` to ``events.jsonl``.

        If it cannot be written, for example because the disk is full, training continues; the log and a note say so.
        """
        if not self.folder:
            return
        try:
            if self._lost:
                self._append(self.folder, "note", message=f"{self._lost} records could not be written meanwhile")
                self._lost = 0
            self._append(self.folder, name, **fields)
        except OSError as error:
            if not self._lost:
                self._complain(self.folder, error)
            self._lost += 1

    def _append(self, folder: RunFolder, name: str, **fields: Any) -> None:
        append_json_line(folder.events, {"event": name, "time": time.time(), **fields})

    def _complain(self, folder: RunFolder, error: OSError) -> None:
        message = f"{StorageError(error, folder.events)}. Training goes on, but its records are lost"
        print(message, file=sys.stderr, flush=True)
        with contextlib.suppress(StorageError):
            folder.append(folder.events, {"event": "note", "time": time.time(), "message": message})

    def result(self, mapping: Mapping) -> None:
        """Write ``result.json``, adding the run's id and name."""
        if self.folder:
            job = read_json(self.folder.job) or {}
            names = {key: job[key] for key in ("id", "name") if job.get(key)}
            self.folder.write_json(self.folder.result, {**names, **mapping})
