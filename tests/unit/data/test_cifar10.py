"""Reading CIFAR-10: small files in the official layout, whole and damaged."""

import os
import pickle
import struct

import numpy as np
import pytest

from course.data import DataError, cifar10, is_there, load
from small_cifar10 import ARCHIVE, NAMES, OFFICIAL, ROWS, batch, files


def python2(batch):
    """Return a batch as Python 2 pickled it, opcode by opcode: what the official files are."""

    def text(content):
        return b"T" + struct.pack("<i", len(content)) + content

    def number(value):
        return b"J" + struct.pack("<i", value)

    shape = number(batch[b"data"].shape[0]) + number(3072) + b"\x86"
    state = number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0)
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R(" + state + b"tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"\x87R("
    array = empty + number(1) + shape + dtype + b"\x89" + text(batch[b"data"].tobytes()) + b"tb"
    labels = b"](" + b"".join(map(number, batch[b"labels"])) + b"e"
    names = b"](" + b"".join(map(text, batch[b"filenames"])) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + labels + text(b"filenames") + names + b"u."


def unpack(folder, **options):
    there = folder / cifar10.FOLDER
    there.mkdir(exist_ok=True)
    for name, content in files(**options).items():
        (there / name).write_bytes(content)
    return there


@pytest.mark.parametrize("protocol", [2, 5])
def test_folder_gives_pictures_and_labels(folder, protocol):
    unpack(folder, protocol=protocol)
    data = load("cifar10")
    facts = {"name": "cifar10", "form": "official layout, unverified", "held_out": "test"}
    assert data.describe() == {**facts, "train_samples": 5 * ROWS, "test_samples": ROWS}
    assert data.class_names == tuple(NAMES)
    second = data.train_images[ROWS:], data.train_labels[ROWS:], batch(1)
    for images, labels, source in (second, (data.test_images, data.test_labels, batch(5))):
        assert labels[:ROWS].tolist() == source[b"labels"]
        for y, x, color in [(0, 0, 0), (0, 31, 1), (31, 0, 2), (7, 9, 1)]:
            place = color * 1024 + y * 32 + x
            np.testing.assert_array_equal(images[:ROWS, y, x, color], source[b"data"][:, place])


def test_pickles_of_python_2_are_read(folder):
    there = unpack(folder)
    expected = load("cifar10").train_images
    (there / "data_batch_1").write_bytes(python2(batch(0)))
    np.testing.assert_array_equal(load("cifar10").train_images, expected)


def test_official_archive_is_preferred(folder, monkeypatch):
    assert not is_there("cifar10")
    with pytest.raises(DataError, match="ddl data fetch cifar10"):
        load("cifar10")
    monkeypatch.setattr(cifar10.REAL, "files", (OFFICIAL,))
    unpack(folder, ending="jpg")
    assert load("cifar10").form == "official layout, JPEG re-encoded"
    (folder / OFFICIAL.file).write_bytes(ARCHIVE)
    assert load("cifar10").form == "official"


def test_second_load_maps_a_file_until_the_source_changes(folder, monkeypatch):
    there = unpack(folder)
    first = load("cifar10")
    decode = cifar10.REAL.decode
    monkeypatch.setattr(cifar10.REAL, "decode", lambda paths: pytest.fail("decoded again"))
    second = load("cifar10")
    assert isinstance(second.train_images, np.memmap)
    np.testing.assert_array_equal(first.train_images, second.train_images)
    monkeypatch.setattr(cifar10.REAL, "decode", decode)
    changed = batch(0)
    changed[b"data"][:] = 9
    (there / "data_batch_1").write_bytes(pickle.dumps(changed))
    assert (load("cifar10").train_images[:ROWS] == 9).all()
    # A folder that cannot be written is read each time.
    (folder / "cifar10.npy").unlink()
    (folder / "cifar10.npy").mkdir()
    assert load("cifar10").train_samples == 5 * ROWS


class Malicious:
    """Pickles to a call of a function of the system's."""

    def __reduce__(self):
        return os.system, ("touch broken-in",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_3", None, "the file is missing"),
        ("data_batch_3", pickle.dumps(batch(2))[:5000], "cannot be unpickled"),
        ("test_batch", Malicious(), "refers to posix.system"),
        ("data_batch_3", batch(2, rows=ROWS - 1), r"its data is uint8 \(39, 3072\), not uint8 \(40"),
        ("data_batch_3", {**batch(2), b"labels": [10] * ROWS}, "not 40 numbers from 0 to 9"),
    ],
)
def test_damaged_folder_is_refused_naming_the_file(folder, monkeypatch, name, content, message):
    monkeypatch.chdir(folder)
    path = unpack(folder) / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
    with pytest.raises(DataError, match=message) as refused:
        load("cifar10")
    assert f"{name} is damaged" in str(refused.value)
    assert "Run `ddl data fetch cifar10`" in str(refused.value)
    assert not (folder / "broken-in").exists() and not (folder / "cifar10.npy").exists()
