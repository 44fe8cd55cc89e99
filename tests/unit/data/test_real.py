"""SVHN: small files of its form, read and damaged."""

import numpy as np
import pytest
from scipy.io import savemat

from course.data import DataError, catalog, listing, load

TRAIN, TEST = 30, 20  # samples


def colors(samples):
    return np.random.default_rng(samples).integers(0, 256, (32, 32, 3, samples), np.uint8)


def mat(samples, **changes):
    """Return the variables of one of SVHN's files; a change of None leaves one out."""
    whole = {"X": colors(samples), "y": (np.arange(samples, dtype=np.uint8) % 10 + 1)[:, None], **changes}
    return {name: value for name, value in whole.items() if value is not None}


def put(folder, **changes):
    """Write SVHN's files; `changes` are other variables of some."""
    folder.mkdir(exist_ok=True)
    for file, samples in (("train_32x32.mat", TRAIN), ("test_32x32.mat", TEST)):
        savemat(folder / file, changes.get(file, mat(samples)), do_compression=True)


def test_svhn_images_are_upright_with_ten_as_zero(folder):
    put(folder)
    data = load("svhn")
    np.testing.assert_array_equal(data.train_images[7], colors(TRAIN)[..., 7])
    assert data.train_labels[:10].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] and data.class_names[3] == "3"


def test_data_set_is_loaded_balanced_and_listed(folder):
    name, title = "svhn", catalog.REAL["svhn"].title
    with pytest.raises(DataError, match=f"ddl data fetch {name}"):
        load(name)
    missing = load("auto", train_samples=20, test_samples=10, prefer=name)
    assert missing.name == "synthetic" and missing.note.startswith(f"{title} is not in {folder}")
    put(folder)
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
    ("file", "content", "what"),
    [
        ("train_32x32.mat", mat(TRAIN, y=None), "it holds no y"),
        ("train_32x32.mat", mat(5, X=np.zeros((5, 32, 32, 3), np.uint8)), r"its X is uint8 \(5, 32, 32, 3\)"),
    ],
)
def test_damaged_data_file_is_named(folder, file, content, what):
    put(folder, **{file: content})
    with pytest.raises(DataError, match=f"is damaged: .*{what}.*ddl data fetch svhn"):
        load("svhn")
