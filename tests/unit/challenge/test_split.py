"""The pictures that ranks open: three parts, and no labels of the private one."""

import os

import numpy as np
import pytest

from course import data
from course.challenge.judge import labels_of, pictures_file
from course.challenge.split import Split
from course.data import cifar10, store
from course.data.dataset import VALIDATION_SAMPLES, DataError, DataSet
from ddl.errors import InputError
from ddl.records.folder import StorageError
from ddl.records.paths import data_dir, runs_dir

SMALL = dict(train_samples=40, public_samples=20, private_samples=30)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty data folder."""
    (tmp_path / "data with a space").mkdir()
    monkeypatch.setenv("DDL_DATA_DIR", str(tmp_path / "data with a space"))


@pytest.fixture
def real(monkeypatch):
    """A CIFAR-10 of noise."""
    generator, parts = np.random.default_rng(0), []
    for samples in (VALIDATION_SAMPLES + 100, 50):
        parts.append(generator.integers(0, 256, (samples, 32, 32, 3), np.uint8))
        parts.append(generator.integers(0, 10, samples).astype(np.int32))
    found = DataSet("cifar10", "official", *parts, tuple("0123456789"))
    monkeypatch.setattr(cifar10.REAL, "read", lambda folder: found)
    monkeypatch.setattr(cifar10.REAL, "source", lambda folder: "first")
    return found


def test_the_file_has_all_pictures_and_no_private_labels(real):
    path = pictures_file("cifar10")
    assert path == data_dir() / "challenge-cifar10.npy"
    split = Split.at(path)
    learn = data.load("cifar10", held_out="validation")
    for name in ("images", "labels"):
        np.testing.assert_array_equal(getattr(split, f"train_{name}"), getattr(learn, f"train_{name}"))
        np.testing.assert_array_equal(getattr(split, f"public_{name}"), getattr(learn, f"test_{name}"))
    np.testing.assert_array_equal(split.private_images, real.test_images)
    # Not in any field, and not in bytes of the file that are no field.
    assert real.test_labels.tobytes() not in path.read_bytes()
    np.testing.assert_array_equal(labels_of("cifar10"), real.test_labels)
    assert split.describe()["test_samples"] == VALIDATION_SAMPLES


def test_smaller_sizes_are_the_beginning_of_the_same_file(real):
    assert pictures_file("cifar10", SMALL) == pictures_file("cifar10")
    small = Split.at(pictures_file("cifar10")).beginning(40, 20, 30)
    assert [len(getattr(small, name)) for name in ("train_images", "train_labels", "public_labels")] == [40, 40, 20]
    np.testing.assert_array_equal(small.private_images, real.test_images[:30])
    np.testing.assert_array_equal(labels_of("cifar10", 30), real.test_labels[:30])
    for too_many in (lambda: labels_of("cifar10", 51), lambda: small.beginning(private=31)):
        with pytest.raises(InputError, match="private images"):
            too_many()


def test_the_file_is_made_once_and_anew_when_its_source_changes(real, monkeypatch):
    inode = pictures_file("cifar10").stat().st_ino
    assert pictures_file("cifar10").stat().st_ino == inode
    monkeypatch.setattr(cifar10.REAL, "source", lambda folder: "second")
    assert pictures_file("cifar10").stat().st_ino != inode


def test_a_file_with_other_fields_is_refused_by_ranks_and_made_anew_by_the_judge(real):
    path = pictures_file("cifar10")
    fields = dict(store.read(path))
    store.write(path, **fields, private_labels=np.zeros(50, np.int32))
    with pytest.raises(InputError, match="other fields than a rank may have .*private_labels"):
        Split.at(path)
    assert "private_labels" not in store.read(pictures_file("cifar10"))


def test_of_generated_pictures_no_more_are_made_than_a_trial_needs():
    path = pictures_file("synthetic", SMALL)
    assert path.name == "challenge-synthetic-40-20-30.npy" and os.listdir(data_dir()) != []
    split = Split.at(path)
    theirs = data.load("synthetic", train_samples=1, test_samples=30)
    np.testing.assert_array_equal(split.private_images, theirs.test_images)
    np.testing.assert_array_equal(labels_of("synthetic", 30), theirs.test_labels)
    assert path.stat().st_size < 100 * 3072 and not (data_dir() / "synthetic-0.npy").exists()


def test_where_the_data_folder_cannot_be_written_the_file_is_among_the_runs(real, monkeypatch):
    write, unwritable = store.write, [data_dir(), runs_dir() / "challenge"]

    def read_only(path, **arrays):
        if path.parent in unwritable:
            raise PermissionError(13, "Read-only file system", str(path))
        write(path, **arrays)

    monkeypatch.setattr(store, "write", read_only)
    with pytest.raises(StorageError, match="Read-only file system"):
        pictures_file("cifar10")
    unwritable.pop()
    path = pictures_file("cifar10")
    assert path == runs_dir() / "challenge" / "challenge-cifar10.npy"
    assert pictures_file("cifar10") == path and len(Split.at(path).private_images) == 50


def test_pictures_that_are_missing_are_named(tmp_path):
    with pytest.raises(DataError, match="ddl data fetch cifar10"):
        pictures_file("cifar10")
    with pytest.raises(InputError, match="nowhere.npy holds no images"):
        Split.at(tmp_path / "nowhere.npy")
