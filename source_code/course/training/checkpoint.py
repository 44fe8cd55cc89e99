"""Checkpoints: weights, optimizer slots and progress in one file.

A requeued or preempted run resumes from the checkpoint in its folder.
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
FORMAT = 1  # files without a number have this format


class Checkpoints:
    """The checkpoints of a training: all `variables` that a step changes, written every `every` steps, or never.

    A resumed training must have the same `settings`. The `statistics` are the variables that differ between ranks; they
    are averaged before each checkpoint.

    The training pauses while the variables are copied; a thread writes the copy. The next checkpoint waits for it only
    if writing takes longer than the steps between the two.
    """

    def __init__(self, variables, settings: dict, every: int = 0, statistics=()):
        self.variables, self.settings, self.every, self._statistics = variables, settings, every, statistics
        self._pool, self._writing = ThreadPoolExecutor(1), None
        if every:
            folder()  # a missing folder fails now rather than at the first checkpoint

    def resume(self, source: str | None) -> dict:
        """Restore a checkpoint on rank 0 and return its state on every rank; empty for a fresh start (see `resume`)."""
        self.state = resume(source, self.variables, self.settings) or {}
        return self.state

    def save_if_due(self, step: int, log, state: Callable[[], dict], at_once: bool = False):
        """Write a checkpoint if it is due, or if the job's time limit is near. The clock stops meanwhile.

        Every rank calls this, and rank 0 writes. The record lists each checkpoint once it is on disk, with the length
        of the pause (``seconds``). If the disk is full, the checkpoint is skipped, or StorageError is raised if the
        training must stop.
        """
        if self._writing and self._writing.done():
            self.finish(log)
        if not (at_once or (self.every and step % self.every == 0)):
            return
        state = {"step": step, **state()}
        with log.paused():
            began = time.perf_counter()
            average_statistics(self._statistics)
            if not log.recorder:
                return
            self.finish(log)
            copies = [variable.numpy().copy() for variable in self.variables]
            self._writing = self._pool.submit(save, copies, {**state, "log": log.state()}, self.settings)
            if at_once:
                self._writing.exception()  # waits
            reason = "time limit" if at_once else f"every {self.every} steps"
            self._fields = {"step": step, "reason": reason, "seconds": time.perf_counter() - began}
            if at_once:
                self.finish(log, must=True)

    def finish(self, log, must: bool = False):
        """Wait for the checkpoint that is being written, if any, and record it; raise its StorageError if it `must`."""
        if not self._writing:
            return
        writing, self._writing = self._writing, None
        try:
            path = writing.result()
        except StorageError as error:
            if must:
                raise
            log.note(f"{error}. The training continues without this checkpoint")
        else:
            log.event("checkpoint", **self._fields, path=path)


def leave(step: int, log):
    """Ask for a restart of the job from this step's checkpoint."""
    log.note(
        f"stopped after step {step} of {log.steps}, because it was asked to (SIGTERM, or a time limit is near); "
        "a restart resumes from there"
    )
    if log.recorder:
        run = folder()
        run.append(run.requeue, {"step": step, "reason": "time limit"})


def folder() -> RunFolder:
    """Return the run's folder, for checkpoints and weights. Raises SettingError outside a run."""
    if run := RunFolder.here():
        return run
    raise SettingError("checkpoints and weights need a run's folder: start the script with `ddl run`")


def save(variables, state: dict, settings: dict) -> Path:
    """Write a checkpoint into the run's folder, atomically, and return its path.

    `state` is the training's progress, as JSON values. The previous checkpoint is kept next to the new one. Raises
    StorageError if the file cannot be written, for example on a full disk.
    """
    run = folder()
    path = run.path / FILE
    arrays = {f"variable_{index}": np.asarray(variable) for index, variable in enumerate(variables)}
    text = json.dumps({"format": FORMAT, "state": state, "settings": settings})
    run.write_arrays(new := run.path / NEW, durable=True, text=text, **arrays)
    try:
        if path.exists():
            path.replace(run.path / BEFORE)
        return new.replace(path)
    except OSError as error:
        raise StorageError(error, path) from error


def resume(source: str | None, variables, settings: dict) -> dict | None:
    """Restore a checkpoint on rank 0 and return its state on every rank; None without a checkpoint.

    A run's own checkpoint takes precedence over `source` (see `find`): it exists only after a restart, and is newer.
    This deletes the request for a restart. The weights reach the other ranks with the broadcast that follows.
    """

    def restored():
        path = _left_by_this_run() or (find(source) if source else None)
        return restore(path, variables, settings) if path else None

    return from_rank_0(restored)


def from_rank_0(read: Callable[[], Any]) -> Any:
    """Return rank 0's result of `read` on every rank; all ranks raise its SettingError, so none waits."""
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
    """Return this run's earlier checkpoint, if any, and delete its restart request."""
    run = RunFolder.here()
    if run is None:
        return None
    run.requeue.unlink(missing_ok=True)
    for part in run.path.glob(f".{NEW}.*.part"):  # left behind by a process that was killed while writing
        part.unlink(missing_ok=True)
    return next((path for path in (run.path / FILE, run.path / BEFORE) if path.exists()), None)


def restore(path: Path, variables, settings: dict) -> dict:
    """Restore `variables` from a checkpoint and return its state. If that fails, use the previous one.

    Raises SettingError if both are damaged or don't match.
    """
    try:
        arrays, state = _read(path, variables, settings)
    except SettingError as damage:
        before = path.with_name(BEFORE)
        if path.name != FILE or not before.is_file():
            raise
        try:
            arrays, state = _read(before, variables, settings)
        except SettingError:
            raise damage from None
        print(f"note: {path} is damaged: resuming from the previous one, {BEFORE}", flush=True)
    for variable, array in zip(variables, arrays):
        variable.assign(array)
    return state


def _read(path, variables, settings):
    """Return a checkpoint's arrays, one for each variable, and state. Raises SettingError if it does not fit."""
    try:
        with np.load(path) as file:
            arrays = dict(file)
            text = json.loads(str(arrays.pop("text")))
            arrays = [arrays[f"variable_{index}"] for index in range(len(arrays))]
            text["settings"].items(), text["state"]["step"] + 0  # it is a number
    except (OSError, ValueError, TypeError, AttributeError, LookupError, EOFError, zipfile.BadZipFile) as error:
        raise SettingError(
            f"{path} cannot be resumed: it is damaged, or not a checkpoint ({error}). "
            "Resume from another one, or move it away to start over"
        ) from error
    if (written := text.get("format", FORMAT)) != FORMAT:
        raise SettingError(
            f"{path} cannot be resumed: it has format {written}, but this version of the course reads {FORMAT}"
        )
    differences = [
        f"{name} is {settings.get(name)!r} now but was {value!r} then"
        for name, value in text["settings"].items()
        if settings.get(name) != value
    ]
    if differences:
        raise SettingError(f"{path} cannot be resumed: {'; '.join(differences)}")
    kept, wanted = ([tuple(each.shape) for each in some] for some in (arrays, variables))
    if kept != wanted:
        raise SettingError(f"{path} cannot be resumed: its variables have different shapes from this training's")
    return arrays, text["state"]


def find(source: str | Path) -> Path:
    """Return the checkpoint of a folder or a run's id; a file is returned unchanged.

    Raises SettingError, with the places searched, if it is not found.
    """
    paths = [Path(source), Path(source) / FILE, runs_dir() / source / FILE]
    for path in paths:
        if path.is_file():
            return path
    raise SettingError(f"no checkpoint to resume: looked for {', '.join(map(str, paths))}")
