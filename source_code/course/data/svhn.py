"""Reads SVHN, the Street View House Numbers, in its form of cropped digits.

Netzer et al. 2011, "Reading Digits in Natural Images with Unsupervised Feature Learning", and
http://ufldl.stanford.edu/housenumbers/: two MATLAB files, each with ``X``, 32 x 32 pictures along the last axis, and
``y``, the digit, where 10 stands for 0.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from course.data import store
from course.data.dataset import DataError, DataSet
from course.data.download import Archive, all_there, form_of, mirrored

FORMAT = 1  # of the decoded arrays; a change counts up, so that kept ones are decoded anew

OFFICIAL = "http://ufldl.stanford.edu/housenumbers"
TRAIN = Archive(
    file="train_32x32.mat",
    address=f"{OFFICIAL}/train_32x32.mat",
    size_bytes=182_040_794,
    sha256="435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
    mirror="DDL_SVHN_URL",
    begins=b"MATLAB",
)
TEST = replace(
    TRAIN,
    file="test_32x32.mat",
    address=f"{OFFICIAL}/test_32x32.mat",
    size_bytes=64_275_384,
    sha256="cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
)


def archives(address: str | None = None) -> list[Archive]:
    """Return what to download, from the official place or the folder `address` of a mirror."""
    return mirrored((TRAIN, TEST), address)


def sources(folder: Path) -> list[Path]:
    """Return the two files in `folder`, or an empty list where one of them is not there."""
    return all_there(folder, (TRAIN, TEST))


def mapped(folder: Path) -> Path:
    """Return the file that keeps the decoded arrays."""
    return folder / "svhn.npy"


def read(folder: Path) -> DataSet:
    """Return the whole data set, from ``train_32x32.mat`` and ``test_32x32.mat`` in `folder`, official or like them.

    The first call keeps the arrays in a file beside the two, where the folder can be written; later calls map that
    file, until one of the two changes. DataError names what is missing or damaged.
    """
    paths = sources(folder)
    if not paths:
        raise DataError(
            f"SVHN is not in {folder}. Run `ddl data fetch svhn` to download it, set DDL_DATA_DIR "
            f"to a folder that holds {TRAIN.file} and {TEST.file}, or use the data set `synthetic`."
        )
    source = store.fingerprint(paths, FORMAT)
    arrays = store.kept(mapped(folder), source, lambda: _decode(paths))
    return DataSet.of("svhn", arrays, tuple("0123456789"))


def _decode(paths):
    arrays = {}
    for part, path in zip(("train", "test"), paths, strict=True):
        arrays[f"{part}_images"], arrays[f"{part}_labels"] = pictures(path)
    return {"form": form_of(paths, (TRAIN, TEST)), **arrays}


def pictures(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the pictures, uint8 ``[n, 32, 32, 3]``, and the digits 0 to 9, int32 ``[n]``, of a MATLAB file.

    Of version 4 to 7.2, with ``X``, uint8 ``[32, 32, 3, n]``, and ``y``, whole numbers from 1 to 10, ``[n, 1]``; else
    DataError.
    """
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=("X", "y"))
    except Exception as problem:  # a damaged file can raise nearly anything
        raise _damaged(path, f"it cannot be read as a MATLAB file ({problem})") from problem
    missing = [name for name in ("X", "y") if name not in content]
    if missing:
        raise _damaged(path, f"it holds no {' and no '.join(missing)}")
    images, digits = content["X"], content["y"].ravel()
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise _damaged(path, f"its X is {images.dtype} {images.shape}, not uint8 (32, 32, 3, n)")
    if len(digits) != images.shape[3] or not np.isin(digits, np.arange(1, 11)).all():
        raise _damaged(path, f"its y is not {images.shape[3]} whole numbers from 1 to 10")
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), (digits % 10).astype(np.int32)


def _damaged(path, what):
    return DataError(f"{path} is damaged: {what}. Run `ddl data fetch svhn` to download the official file.")
