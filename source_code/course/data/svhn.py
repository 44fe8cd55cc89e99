"""Reader for SVHN, the Street View House Numbers, in the cropped-digits format.

Netzer et al. 2011, "Reading Digits in Natural Images with Unsupervised Feature Learning", and
http://ufldl.stanford.edu/housenumbers/: two MATLAB files, each with ``X``, 32 x 32 images along the last axis, and
``y``, the digit, where 10 stands for 0.
"""

from functools import partial
from pathlib import Path

import numpy as np

from course.data.download import Archive
from course.data.real import RealSet, damaged

OFFICIAL = "http://ufldl.stanford.edu/housenumbers"
FILES = (
    ("train_32x32.mat", 182_040_794, "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"),
    ("test_32x32.mat", 64_275_384, "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
)
_damaged = partial(damaged, "svhn")


def pictures(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the images, uint8 ``[n, 32, 32, 3]``, and the digits 0 to 9, int32 ``[n]``, of a MATLAB file.

    The file has version 4 to 7.2, ``X``, uint8 ``[32, 32, 3, n]``, and ``y``, integers from 1 to 10, ``[n, 1]``. Raises
    DataError otherwise.
    """
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=("X", "y"))
    except Exception as problem:  # a damaged file can raise almost any exception
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


def _decode(paths):
    arrays = {}
    for split, path in zip(("train", "test"), paths, strict=True):
        arrays[f"{split}_images"], arrays[f"{split}_labels"] = pictures(path)
    return arrays


REAL = RealSet(
    "svhn",
    "SVHN",
    tuple(Archive(file, f"{OFFICIAL}/{file}", *about, "DDL_SVHN_URL") for file, *about in FILES),
    _decode,
    class_names=tuple("0123456789"),
)
