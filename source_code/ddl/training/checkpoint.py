"""A training's state in one file: weights, optimizer slots, and where the training stood.

A run that is started again in its own folder (a requeued or preempted job) goes on from there.
"""

import json
import os
import signal
import zipfile
from pathlib import Path

import numpy as np

from ddl.records.files import replacing
from ddl.records.folder import RunFolder, StorageError
from ddl.records.paths import runs_dir
from ddl.training.recipes import SettingError

__all__ = ["Notice", "find", "folder", "requeue", "restore", "resume", "save"]

FILE = "checkpoint.npz"


class Notice:
    """Whether this process has been told that its job is about to be ended: by SIGURG.

    A scheduler sends it to every process of the job some time before the limit. Shells and
    launchers ignore that signal, and so does a script outside a run, which has no folder to leave
    a checkpoint in. Make one in the main thread only: Python handles signals nowhere else.
    """

    def __init__(self):
        self.given = False
        if "DDL_RUN_DIR" in os.environ:
            signal.signal(signal.SIGURG, self._give)
            # What a library waits for at that moment goes on instead of failing with EINTR.
            signal.siginterrupt(signal.SIGURG, False)
            # `ddl.rank` holds the signal back from the start: one that came before now is heard.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGURG])

    def _give(self, number, frame):
        self.given = True


def folder():
    """Return the folder that checkpoints go to: the run's.

    Raises
    ------
    SettingError
        When this process belongs to no run.
    """
    if "DDL_RUN_DIR" not in os.environ:
        raise SettingError("checkpoints go into a run's folder, and there is none: use `ddl run`")
    return Path(os.environ["DDL_RUN_DIR"])


def save(variables, state, settings):
    """Write a checkpoint whole or not at all; the one before stays until the new one is there.

    Parameters
    ----------
    variables : list of tf.Variable
        Everything that a step changes: weights, batch statistics, optimizer slots.
    state : dict
        Where the training stands, as JSON can say it.
    settings : dict
        What a training that goes on from here must agree with.

    Returns
    -------
    Path
        The file, in the run's folder.

    Raises
    ------
    StorageError
        If it cannot be written, as on a full disk; the one before is still there.
    """
    path = folder() / FILE
    arrays = {f"variable_{index}": variable.numpy() for index, variable in enumerate(variables)}
    try:
        with replacing(path, durable=True) as file:
            np.savez(file, text=json.dumps({"state": state, "settings": settings}), **arrays)
    except OSError as error:
        raise StorageError(error, path) from error
    return path


def requeue(step, reason):
    """Ask for the job to be started again: it stopped with a checkpoint to go on from."""
    kept = RunFolder(folder())
    kept.append(kept.requeue, {"step": step, "reason": reason})


def resume(place, variables, settings):
    """Restore a checkpoint on rank 0 and return its state on every rank.

    A checkpoint of this very run is always the one: it is there only when the run has been started
    before, and it is later than the one that the run may have set out from. With it goes the
    request to start the run again, which has been granted.

    All ranks must call it. A failure is raised by all of them: if only rank 0 ended, the others
    would wait for it. The weights reach the other ranks with the broadcast that follows anyway.

    Parameters
    ----------
    place : str or None
        Where else to look (see `find`).
    variables, settings
        As for `save`.

    Returns
    -------
    dict or None
        None where there is nothing to go on from.

    Raises
    ------
    SettingError
        As `find` and `restore` do.
    """
    import horovod.tensorflow as hvd

    state = problem = None
    if hvd.rank() == 0:
        try:
            path = _own() or (find(place) if place else None)
            state = restore(path, variables, settings) if path else None
        except SettingError as error:
            problem = str(error)
    state, problem = hvd.broadcast_object((state, problem), root_rank=0)
    if problem:
        raise SettingError(problem)
    return state


def _own():
    """Return the checkpoint that this run has left, if any, and forget that it asked for more."""
    if "DDL_RUN_DIR" not in os.environ:
        return None
    RunFolder(folder()).requeue.unlink(missing_ok=True)
    path = folder() / FILE
    return path if path.is_file() else None


def restore(path, variables, settings):
    """Put a checkpoint's values into `variables` and return its state.

    Raises
    ------
    SettingError
        When the file is damaged, or was made by a training with other settings; the message names
        them.
    """
    try:
        with np.load(path) as file:
            arrays = dict(file)
            text = json.loads(str(arrays.pop("text")))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise SettingError(
            f"{path} can not be resumed: it is damaged, or no checkpoint ({error}). "
            "Resume another, or move it away to start from the beginning"
        ) from error
    other = [
        f"{name} is {settings.get(name)!r} here and {value!r} there"
        for name, value in text["settings"].items()
        if settings.get(name) != value
    ]
    if other:
        raise SettingError(f"{path} can not be resumed: {'; '.join(other)}")
    for index, variable in enumerate(variables):
        variable.assign(arrays[f"variable_{index}"])
    return text["state"]


def find(place):
    """Return the checkpoint in a folder, in a run of that id, or the file itself.

    Raises
    ------
    SettingError
        When there is none; the message says where it was looked for.
    """
    places = [Path(place), Path(place) / FILE, runs_dir() / place / FILE]
    for path in places:
        if path.is_file():
            return path
    raise SettingError(f"no checkpoint to resume: looked for {', '.join(map(str, places))}")
