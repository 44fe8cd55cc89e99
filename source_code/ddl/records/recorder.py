"""Records that rank 0's script writes: events while it trains, and a result."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import append_json_line, read_json


class Recorder:
    """Writes events while training and the result at the end. Create one on rank 0 only.

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
        if not self.folder:
            return
        try:
            if self._lost:
                message = f"{self._lost} records could not be written meanwhile: {self._why}"
                append_json_line(self.folder.events, {"event": "note", "time": time.time(), "message": message})
                self._lost = 0
            append_json_line(self.folder.events, {"event": name, "time": time.time(), **fields})
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
