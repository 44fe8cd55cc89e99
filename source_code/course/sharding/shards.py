"""Checkpoints in shards: each rank writes its own, and any number of ranks can read them.

Step 20 of four ranks is ``20-0.npz`` to ``20-3.npz`` and the manifest ``20.json``, which rank 0 writes once all shards
are on disk. A checkpoint without a manifest, or with a damaged shard, does not count.
"""

import json
import os
import zipfile
from pathlib import Path

import numpy as np


def save(folder: Path, step: int, shards: dict[str, np.ndarray], sizes: dict[str, int], world) -> None:
    """Write this rank's shards of all arrays; `sizes` are the arrays' lengths without padding. All ranks call this."""
    _write(folder / f"{step}-{world.rank}.npz", lambda file: np.savez(file, **shards))
    world.barrier()
    if world.rank == 0:
        manifest = json.dumps({"step": step, "ranks": world.size, "sizes": sizes})
        _write(folder / f"{step}.json", lambda file: file.write(manifest.encode()))


def load(folder: Path, world) -> tuple[int, dict[str, np.ndarray]] | None:
    """Return step and this rank's shards of the newest checkpoint that is whole, or None if there is none."""
    for path in sorted(folder.glob("*.json"), key=lambda path: int(path.stem), reverse=True):
        try:
            manifest = json.loads(path.read_text())
            files = [np.load(folder / f"{path.stem}-{rank}.npz") for rank in range(manifest["ranks"])]
            arrays = {name: np.concatenate([file[name] for file in files]) for name in manifest["sizes"]}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            continue
        return manifest["step"], {
            name: world.split(array[: manifest["sizes"][name]])[world.rank] for name, array in arrays.items()
        }
    return None


def _write(path, write):
    """Write a file at once: under another name until it is on disk."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
