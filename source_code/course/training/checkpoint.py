"""A training's state in one file: weights, optimizer slots, and where the training stood.

A run that is started again in its own folder (a requeued or preempted job) goes on from there.
"""

import json
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from course.training.horovod_utils import average_statistics
from course.training.recipes import SettingError
from ddl.records.folder import RunFolder, StorageError
from ddl.records.paths import runs_dir

FILE, BEFORE, NEW = "checkpoint.npz", "checkpoint-before.npz", "checkpoint-new.npz"
FORMAT = 1  # of these files; one without a number is of this format


class Checkpoints:
    """The checkpoints of one training: all `variables` that a step changes, written `every` so many steps, or never.

    A training that goes on from one must agree with its `settings`. The `statistics`, those of the variables that each
    rank keeps of its own, are averaged before one is written, so that rank 0's stand for all ranks.

    The training stands still while the variables are copied; a thread writes the copy. Only where that takes longer
    than the steps between two checkpoints does the next one wait for it.
    """

    def __init__(self, variables, settings: dict, every: int = 0, statistics=()):
        self.variables, self.settings, self.every, self._statistics = variables, settings, every, statistics
        self._pool, self._writing = ThreadPoolExecutor(1), None
        if every:
            folder()  # refused now where there is none, rather than after so many steps

    def resume(self, source: str | None) -> dict:
        """Restore one on rank 0, and return its state on every rank; empty for a fresh start (see `resume`)."""
        self.state = resume(source, self.variables, self.settings) or {}
        return self.state

    def save_if_due(self, step: int, journal, state: Callable[[], dict], at_once: bool = False):
        """Write one every so many steps, or at once because the job's time limit is near. The clock stops.

        Every rank calls this, and rank 0 writes. The record has one that is on the disk, and for how long the training
        stood still for it (``seconds``). A disk that is full costs the checkpoint, and the training only where it must
        stop: StorageError.
        """
        if self._writing and self._writing.done():
            self.finish(journal)
        if not (at_once or (self.every and step % self.every == 0)):
            return
        state = {"step": step, **state()}
        with journal.paused():
            began = time.perf_counter()
            average_statistics(self._statistics)
            if not journal.recorder:
                return
            self.finish(journal)
            copies = [variable.numpy().copy() for variable in self.variables]
            self._writing = self._pool.submit(save, copies, {**state, "journal": journal.state()}, self.settings)
            if at_once:
                self._writing.exception()  # waits
            reason = "time limit" if at_once else f"every {self.every} steps"
            self._fields = {"step": step, "reason": reason, "seconds": time.perf_counter() - began}
            if at_once:
                self.finish(journal, must=True)

    def finish(self, journal, must: bool = False):
        """Wait for the checkpoint that is being written, if any, and record it; raise its StorageError if it `must`."""
        if not self._writing:
            return
        writing, self._writing = self._writing, None
        try:
            path = writing.result()
        except StorageError as error:
            if must:
                raise
            journal.note(f"{error}. The training goes on without this checkpoint")
        else:
            journal.event("checkpoint", **self._fields, path=path)


def leave(step: int, journal):
    """Ask for the job to be started again, from the checkpoint of this step."""
    journal.note(
        f"stopped after step {step} of {journal.steps}, because the job's time limit is near; started again, it "
        "goes on from there"
    )
    if journal.recorder:
        run = folder()
        run.append(run.requeue, {"step": step, "reason": "time limit"})


def folder() -> RunFolder:
    """Return the folder that checkpoints and kept weights go to: the run's; SettingError outside a run."""
    if run := RunFolder.here():
        return run
    raise SettingError("checkpoints and weights go into a run's folder, and there is none: use `ddl run`")


def save(variables, state: dict, settings: dict) -> Path:
    """Write a checkpoint into the run's folder, whole or not at all, and return its path.

    `state` says where the training stands, in values that JSON has. StorageError, if it cannot be written, as on a full
    disk; the one before is still there, and kept beside the new one.
    """
    run = folder()
    path = run.path / FILE
    arrays = {f"variable_{index}": np.asarray(variable) for index, variable in enumerate(variables)}
    text = json.dumps({"format": FORMAT, "state": state, "settings": settings})
    run.write_arrays(new := run.path / NEW, durable=True, text=text, **arrays)
    if path.exists():
        path.replace(run.path / BEFORE)
    return new.replace(path)


def resume(source: str | None, variables, settings: dict) -> dict | None:
    """Restore a checkpoint on rank 0 and return its state on every rank; None where there is none.

    A run's own checkpoint comes before that of `source` (see `find`): it exists only where the run
    was started before, and is later. The request to start the run again, now granted, goes. The weights reach the
    other ranks with the broadcast that follows.
    """

    def restored():
        path = _left_by_this_run() or (find(source) if source else None)
        return restore(path, variables, settings) if path else None

    return from_rank_0(restored)


def from_rank_0(read: Callable[[], Any]) -> Any:
    """Return on every rank what `read` returns on rank 0; all raise its SettingError, or the others would wait."""
    import horovod.tensorflow as hvd

    found = problem = None
    if hvd.rank() == 0:
        try:
            found = read()
        except SettingError as error:
            problem = str(error)
    found, problem = hvd.broadcast_object((found, problem), root_rank=0)
    if problem:
        raise SettingError(problem)
    return found


def _left_by_this_run():
    """Return the checkpoint that this run has left, if any; drop its request to be started again."""
    run = RunFolder.here()
    if run is None:
        return None
    run.requeue.unlink(missing_ok=True)
    for part in run.path.glob(f".{NEW}.*.part"):  # of one that was being written when its process was killed
        part.unlink(missing_ok=True)
    return next((path for path in (run.path / FILE, run.path / BEFORE) if path.is_file()), None)


def restore(path: Path, variables, settings: dict) -> dict:
    """Put a checkpoint's values into `variables` and return its state; of a damaged one, those of the one before.

    SettingError, when both are damaged, or the training that made it had other settings.
    """
    try:
        arrays, text = _read(path)
    except SettingError:
        before = path.with_name(BEFORE)
        if path.name != FILE or not before.is_file():
            raise
        print(f"note: {path} is damaged: the training goes on from the one before, {BEFORE}", flush=True)
        arrays, text = _read(before)
    if (written := text.get("format", FORMAT)) != FORMAT:
        raise SettingError(
            f"{path} cannot be resumed: it is of format {written}, and this version of the course reads {FORMAT}"
        )
    differences = [
        f"{name} is {settings.get(name)!r} here and was {value!r} there"
        for name, value in text["settings"].items()
        if settings.get(name) != value
    ]
    if differences:
        raise SettingError(f"{path} cannot be resumed: {'; '.join(differences)}")
    kept, wanted = (
        [tuple(each.shape) for each in some]
        for some in ([arrays[f"variable_{index}"] for index in range(len(arrays))], variables)
    )
    if kept != wanted:
        raise SettingError(
            f"{path} cannot be resumed: it holds {len(kept)} variables, and this training has {len(wanted)}, or "
            "others: an earlier version of the course may have written it"
        )
    for index, variable in enumerate(variables):
        variable.assign(arrays[f"variable_{index}"])
    return text["state"]


def _read(path):
    """Return a checkpoint's arrays and its text; SettingError, when it is damaged."""
    try:
        with np.load(path) as file:
            arrays = dict(file)
            text = json.loads(str(arrays.pop("text")))
            text["state"], text["settings"]  # both are there
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise SettingError(
            f"{path} cannot be resumed: it is damaged, or not a checkpoint ({error}). "
            "Resume another, or move it away to start from the beginning"
        ) from error
    return arrays, text


def find(source: str | Path, file: str = FILE, purpose: str = "checkpoint to resume") -> Path:
    """Return the file of that name in a folder or in the run of that id, or the file itself; by default a checkpoint.

    When there is none, a SettingError says where it was looked for.
    """
    paths = [Path(source), Path(source) / file, runs_dir() / source / file]
    for path in paths:
        if path.is_file():
            return path
    raise SettingError(f"no {purpose}: looked for {', '.join(map(str, paths))}")
