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


def test_preferred_data_set_is_taken_where_it_is_and_listed(folder):
    missing = load("auto", train_samples=20, test_samples=10, prefer="svhn")
    assert missing.name == "synthetic" and missing.note.startswith(f"{catalog.REAL['svhn'].title} is not in {folder}")
    put(folder)
    data = load("auto", prefer="svhn")
    assert (data.name, data.form) == ("svhn", "official layout, unverified")
    assert data.train_images.shape == (TRAIN, 32, 32, 3) and data.test_labels.dtype == np.int32
    (entry,) = [entry for entry in listing() if entry.name == "svhn"]
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
