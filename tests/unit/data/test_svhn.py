"""SVHN: small MATLAB files, read, damaged, and fetched."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

from course.data import DataError, catalogue, fetch, is_there, listing, load, svhn

SAMPLES = {"train": 30, "test": 20}


def content(part):
    rng = np.random.default_rng(len(part))
    number = SAMPLES[part]
    return {
        "X": rng.integers(0, 256, (32, 32, 3, number), np.uint8),
        "y": (np.arange(number, dtype=np.uint8) % 10 + 1)[:, None],
    }


def put(folder, **changes):
    """Write both files; a change of None leaves a variable out."""
    folder.mkdir(exist_ok=True)
    for part in SAMPLES:
        whole = {**content(part), **changes}
        savemat(
            folder / f"{part}_32x32.mat",
            {name: value for name, value in whole.items() if value is not None},
            do_compression=True,
        )
    return folder


def test_pictures_stand_upright_and_ten_is_zero(folder):
    images, labels = svhn.pictures(put(folder) / "train_32x32.mat")
    official = content("train")
    assert images.shape == (30, 32, 32, 3) and images.flags.c_contiguous
    np.testing.assert_array_equal(images[7], official["X"][..., 7])
    assert labels.dtype == np.int32
    assert labels[:10].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


def test_data_set_is_loaded_balanced_and_kept(folder):
    put(folder)
    data = load("svhn")
    assert data.describe() == {
        "name": "svhn",
        "form": "official layout, unverified",
        "train_samples": 30,
        "test_samples": 20,
        "held_out": "test",
    }
    assert data.class_names[3] == "3"
    assert np.bincount(load("svhn", train_samples=10).train_labels).tolist() == [1] * 10
    assert isinstance(load("svhn").train_images, np.memmap)
    with pytest.raises(DataError, match="svhn has 20 test samples: 21 is not possible"):
        load("svhn", test_samples=21)
    entry = next(entry for entry in listing() if entry.name == "svhn")
    assert entry.is_here and entry.samples == 50 and "50 images" in str(entry)


def test_auto_prefers_what_it_is_told_to(folder):
    missing = load("auto", train_samples=20, test_samples=10, prefer="svhn")
    assert missing.name == "synthetic" and missing.note.startswith(f"SVHN is not in {folder}")
    put(folder)
    assert load("auto", prefer="svhn").name == "svhn"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "it holds no y"),
        ({"X": np.zeros((5, 32, 32, 3), np.uint8)}, r"its X is uint8 \(5, 32, 32, 3\), not uint8"),
        ({"y": np.ones((3, 1), np.uint8)}, "its y is not 30 whole numbers from 1 to 10"),
    ],
)
def test_a_file_of_another_form_is_refused(folder, changes, message):
    put(folder, **changes)
    with pytest.raises(DataError, match=f"train_32x32.mat is damaged: {message}"):
        load("svhn")


def test_damaged_and_missing_files_are_named(folder):
    with pytest.raises(DataError, match="Run `ddl data fetch svhn`.*use the data set `synthetic`"):
        load("svhn")
    path = put(folder) / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DataError, match="test_32x32.mat is damaged: it cannot be read as a MAT"):
        load("svhn")
    path.unlink()
    assert not is_there("svhn")


def test_fetch_asks_a_mirror_for_both_files_and_later_only_for_what_is_damaged(folder, tmp_path, monkeypatch):
    mirror = put(tmp_path / "mirror")
    for name in ("TRAIN", "TEST"):
        archive = getattr(svhn, name)
        content = (mirror / archive.file).read_bytes()
        assert content.startswith(archive.begins)
        digest = hashlib.sha256(content).hexdigest()
        monkeypatch.setattr(svhn, name, replace(archive, size_bytes=len(content), sha256=digest))
    asked, lines = [], []

    def download(archive, into, say):
        asked.append(archive.address)
        (into / archive.file).write_bytes((mirror / archive.file).read_bytes())

    monkeypatch.setattr(catalogue, "download", download)
    monkeypatch.setenv("DDL_SVHN_URL", "http://mirror/")
    fetch("svhn", lines.append)
    assert load("svhn").form == "official"
    assert lines[-1] == f"svhn: 30 + 20 images, official, in {folder}"
    fetch("svhn", str)
    assert asked == ["http://mirror/train_32x32.mat", "http://mirror/test_32x32.mat"]
    path = folder / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:-500])
    lines.clear()
    fetch("svhn", lines.append)
    assert "test_32x32.mat is damaged" in lines[0] and asked[2:] == ["http://mirror/test_32x32.mat"]
