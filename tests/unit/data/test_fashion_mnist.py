"""Fashion-MNIST: small IDX files, read, damaged, and fetched."""

import gzip
import hashlib
import struct
from dataclasses import replace

import numpy as np
import pytest

from course.data import DataError, catalogue, fashion_mnist, fetch, listing, load

SAMPLES = {"train": 30, "t10k": 20}


def idx(array, magic):
    return gzip.compress(struct.pack(f">{1 + array.ndim}i", magic, *array.shape) + array.tobytes())


def content():
    """The four files, by name."""
    files = {}
    for part, number in SAMPLES.items():
        images = np.random.default_rng(number).integers(0, 256, (number, 28, 28), np.uint8)
        files[f"{part}-images-idx3-ubyte.gz"] = idx(images, 2051)
        files[f"{part}-labels-idx1-ubyte.gz"] = idx(np.arange(number, dtype=np.uint8) % 10, 2049)
    return files


def put(folder, **changes):
    folder.mkdir(exist_ok=True)
    for file, data in {**content(), **changes}.items():
        (folder / file).write_bytes(data)


def test_grey_images_are_padded_and_have_three_equal_channels(folder):
    put(folder)
    data = load("fashion_mnist")
    assert (data.train_samples, data.test_samples, data.form) == (30, 20, "official layout, unverified")
    original = np.random.default_rng(30).integers(0, 256, (30, 28, 28), np.uint8)
    for channel in range(3):
        np.testing.assert_array_equal(data.train_images[:, 2:30, 2:30, channel], original)
    assert data.train_images[:, [0, 1, 30, 31]].max() == 0 and data.class_names[data.train_labels[7]] == "sneaker"
    assert any(entry.name == "fashion_mnist" and entry.samples == 50 for entry in listing())


@pytest.mark.parametrize(
    ("file", "data", "what"),
    [
        ("train-images-idx3-ubyte.gz", b"no archive", "cannot be unpacked"),
        ("train-images-idx3-ubyte.gz", content()["train-images-idx3-ubyte.gz"][:-9], "cannot be unpacked"),
        ("t10k-images-idx3-ubyte.gz", idx(np.zeros((20, 28, 28), np.uint8), 2049), "header does not say"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(b""), "header does not say"),
        ("train-labels-idx1-ubyte.gz", idx(np.zeros(29, np.uint8), 2049), "beside 29 labels"),
        ("t10k-labels-idx1-ubyte.gz", idx(np.full(20, 10, np.uint8), 2049), "labels of 0 to 10"),
    ],
)
def test_a_damaged_file_is_named(folder, file, data, what):
    put(folder, **{file: data})
    with pytest.raises(DataError, match=f"is damaged: .*{what}.*ddl data fetch fashion_mnist"):
        load("fashion_mnist")


def test_it_is_fetched_from_a_mirror_and_missing_files_are_named(folder, monkeypatch):
    with pytest.raises(DataError, match="Fashion-MNIST is not in .*ddl data fetch fashion_mnist"):
        load("fashion_mnist")
    files, asked = content(), []
    known = [
        replace(archive, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        for archive in fashion_mnist.FILES
        for data in [files[archive.file]]
    ]

    def download(archive, into, say):
        assert files[archive.file].startswith(archive.begins)
        asked.append(archive.address)
        (into / archive.file).write_bytes(files[archive.file])

    monkeypatch.setattr(fashion_mnist, "FILES", tuple(known))
    monkeypatch.setattr(catalogue, "download", download)
    said = []
    fetch("fashion_mnist", said.append, address="http://mirror/")
    assert asked == [f"http://mirror/{file}" for file in files]
    assert load("fashion_mnist").form == "official" and said[-1].startswith("fashion_mnist: 30 + 20 images, official")
