"""Checkpoints in parts: any number of ranks reads them, and a torn one does not count."""

import numpy as np
import pytest

from course.sharding.shards import load, save


class World:
    """A rank of a world without communication."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def barrier(self):
        pass

    def split(self, values):
        return np.pad(values, (0, -len(values) % self.size)).reshape(self.size, -1)


ARRAYS = {"long": np.arange(10.0), "short": np.arange(3.0) + 50}


def write(folder, step, ranks, arrays=ARRAYS):
    sizes = {name: len(array) for name, array in arrays.items()}
    for rank in reversed(range(ranks)):  # rank 0 writes the manifest
        world = World(rank, ranks)
        save(folder, step, {name: world.split(array)[rank] for name, array in arrays.items()}, sizes, world)


def read(folder, ranks):
    """Return step and whole arrays, with padding, from all ranks' shards."""
    found = [load(folder, World(rank, ranks)) for rank in range(ranks)]
    return found[0][0], {name: np.concatenate([shards[name] for _, shards in found]) for name in found[0][1]}


@pytest.mark.parametrize("before, after", [(4, 2), (2, 3), (3, 4), (1, 1), (4, 5)])
def test_any_number_of_ranks_continues(tmp_path, before, after):
    write(tmp_path, 7, before)
    step, arrays = read(tmp_path, after)
    assert step == 7
    for name, array in ARRAYS.items():
        assert arrays[name].tolist() == World(0, after).split(array).ravel().tolist()


def test_newest_checkpoint_counts_by_number_not_by_name(tmp_path):
    write(tmp_path, 9, 2)
    write(tmp_path, 10, 2)
    assert load(tmp_path, World(0, 2))[0] == 10


TEARS = {
    "no manifest": lambda folder: (folder / "8.json").unlink(),
    "half a manifest": lambda folder: (folder / "8.json").write_text('{"step": 8, "ran'),
    "no shard": lambda folder: (folder / "8-1.npz").unlink(),
    "half a shard": lambda folder: (folder / "8-1.npz").write_bytes((folder / "8-1.npz").read_bytes()[:200]),
    "a changed byte": lambda folder: (folder / "8-1.npz").write_bytes(
        bytes(b ^ (place == 140) for place, b in enumerate((folder / "8-1.npz").read_bytes()))
    ),
}


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_torn_checkpoint_falls_back_to_the_one_before(tmp_path, tear):
    write(tmp_path, 4, 2)
    write(tmp_path, 8, 2, {name: array + 1 for name, array in ARRAYS.items()})
    tear(tmp_path)
    step, arrays = read(tmp_path, 2)
    assert step == 4 and arrays["long"][0] == 0


def test_no_checkpoint_is_none(tmp_path):
    assert load(tmp_path, World(0, 2)) is None
