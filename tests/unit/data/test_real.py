"""SVHN and Fashion-MNIST: small files of their forms, read, damaged, and fetched."""

import gzip
import struct

import numpy as np
import pytest
from scipy.io import savemat

from course.data import DataError, catalog, listing, load

TRAIN, TEST = 30, 20  # samples
MNIST = {"train": TRAIN, "t10k": TEST}


def colors(samples):
    return np.random.default_rng(samples).integers(0, 256, (32, 32, 3, samples), np.uint8)


def grays(samples):
    return np.random.default_rng(samples).integers(0, 256, (samples, 28, 28), np.uint8)


def mat(samples, **changes):
    """Return the variables of one of SVHN's files; a change of None leaves one out."""
    whole = {"X": colors(samples), "y": (np.arange(samples, dtype=np.uint8) % 10 + 1)[:, None], **changes}
    return {name: value for name, value in whole.items() if value is not None}


def idx(array, magic):
    return gzip.compress(struct.pack(f">{1 + array.ndim}i", magic, *array.shape) + array.tobytes())


def put(folder, name, **changes):
    """Write the files of a data set; `changes` are other bytes or variables of some."""
    folder.mkdir(exist_ok=True)
    if name == "svhn":
        for file, samples in (("train_32x32.mat", TRAIN), ("test_32x32.mat", TEST)):
            savemat(folder / file, changes.get(file, mat(samples)), do_compression=True)
        return folder
    for part, samples in MNIST.items():
        files = {"images-idx3": idx(grays(samples), 2051)}
        files["labels-idx1"] = idx(np.arange(samples, dtype=np.uint8) % 10, 2049)
        for kind, data in files.items():
            file = f"{part}-{kind}-ubyte.gz"
            (folder / file).write_bytes(changes.get(file, data))
    return folder


def test_svhn_images_are_upright_with_ten_as_zero(folder):
    put(folder, "svhn")
    data = load("svhn")
    np.testing.assert_array_equal(data.train_images[7], colors(TRAIN)[..., 7])
    assert data.train_labels[:10].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] and data.class_names[3] == "3"


def test_gray_images_are_padded_and_have_three_equal_channels(folder):
    put(folder, "fashion_mnist")
    data = load("fashion_mnist")
    for channel in range(3):
        np.testing.assert_array_equal(data.train_images[:, 2:30, 2:30, channel], grays(TRAIN))
    assert data.train_images[:, [0, 1, 30, 31]].max() == 0 and data.class_names[data.train_labels[7]] == "sneaker"


@pytest.mark.parametrize("name", ["svhn", "fashion_mnist"])
def test_data_set_is_loaded_balanced_and_listed(folder, name):
    title = catalog.REAL[name].title
    with pytest.raises(DataError, match=f"ddl data fetch {name}"):
        load(name)
    missing = load("auto", train_samples=20, test_samples=10, prefer=name)
    assert missing.name == "synthetic" and missing.note.startswith(f"{title} is not in {folder}")
    put(folder, name)
    data = load("auto", prefer=name)
    assert (data.name, data.form) == (name, "official layout, unverified")
    assert data.train_images.shape == (TRAIN, 32, 32, 3) and data.test_labels.dtype == np.int32
    assert np.bincount(load(name, train_samples=10).train_labels).tolist() == [1] * 10
    assert isinstance(load(name).train_images, np.memmap)
    with pytest.raises(DataError, match=f"{name} .*21"):
        load(name, test_samples=21)
    (entry,) = [entry for entry in listing() if entry.name == name]
    assert entry.is_here and entry.samples == 50 and "50 images" in str(entry)


@pytest.mark.parametrize(
    ("name", "file", "content", "what"),
    [
        ("svhn", "train_32x32.mat", mat(TRAIN, y=None), "it holds no y"),
        ("svhn", "train_32x32.mat", mat(5, X=np.zeros((5, 32, 32, 3), np.uint8)), r"its X is uint8 \(5, 32, 32, 3\)"),
        ("fashion_mnist", "train-images-idx3-ubyte.gz", idx(grays(TRAIN), 2051)[:-9], "cannot be unpacked"),
        ("fashion_mnist", "t10k-images-idx3-ubyte.gz", idx(grays(TEST), 2049), "header is invalid"),
        ("fashion_mnist", "train-labels-idx1-ubyte.gz", idx(np.zeros(29, np.uint8), 2049), "beside 29 labels"),
    ],
)
def test_damaged_data_file_is_named(folder, name, file, content, what):
    put(folder, name, **{file: content})
    with pytest.raises(DataError, match=f"is damaged: .*{what}.*ddl data fetch {name}"):
        load(name)
