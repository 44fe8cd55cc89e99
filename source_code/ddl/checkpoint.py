"""A training's state in one file: weights, optimizer slots, and where the training stood."""

import json
import os
from pathlib import Path

import numpy as np

from ddl.recipes import SettingError
from ddl.record import runs_dir

__all__ = ["find", "folder", "restore", "resume", "save"]

FILE = "checkpoint.npz"


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
    """
    path = folder() / FILE
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    arrays = {f"variable_{index}": variable.numpy() for index, variable in enumerate(variables)}
    try:
        with open(part, "wb") as file:
            np.savez(file, text=json.dumps({"state": state, "settings": settings}), **arrays)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def resume(place, variables, settings):
    """Restore a checkpoint on rank 0 and return its state on every rank.

    All ranks must call it. A failure is raised by all of them: if only rank 0 ended, the others
    would wait for it. The weights reach the other ranks with the broadcast that follows anyway.

    Raises
    ------
    SettingError
        As `find` and `restore` do.
    """
    import horovod.tensorflow as hvd

    state = problem = None
    if hvd.rank() == 0:
        try:
            state = restore(find(place), variables, settings)
        except SettingError as error:
            problem = str(error)
    state, problem = hvd.broadcast_object((state, problem), root_rank=0)
    if problem:
        raise SettingError(problem)
    return state


def restore(path, variables, settings):
    """Put a checkpoint's values into `variables` and return its state.

    Raises
    ------
    SettingError
        When the file was made by a training with other settings; the message names them.
    """
    with np.load(path) as file:
        text = json.loads(str(file["text"]))
        other = [
            f"{name} is {settings[name]!r} here and {value!r} there"
            for name, value in text["settings"].items()
            if settings[name] != value
        ]
        if other:
            raise SettingError(f"{path} can not be resumed: {'; '.join(other)}")
        for index, variable in enumerate(variables):
            variable.assign(file[f"variable_{index}"])
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
