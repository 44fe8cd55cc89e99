"""Reader for CIFAR-10, from the official archive or its unpacked folder.

The data set is described at https://www.cs.toronto.edu/~kriz/cifar.html: six pickled batches of 10,000 rows. A row is a
32 x 32 image: all red values, then green, then blue.
"""

import hashlib
import io
import pickle
import tarfile
from functools import partial

import numpy as np

from course.data.download import Archive, sha256
from course.data.real import RealSet, damaged

FOLDER = "cifar-10-batches-py"
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = "test_batch"
META = "batches.meta"
_damaged = partial(damaged, "cifar10")

# MD5 of the unpacked official files, to recognize a folder that was unpacked earlier.
OFFICIAL_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}


def _decode(paths):
    """Return the checked arrays, form and class names of the archive or an unpacked folder."""
    (path,) = paths
    files = _unpacked(path) if path.is_dir() else _archived(path)
    meta = _unpickle(files[META], f"{path}: {META}")
    try:
        names = [name.decode() for name in meta[b"label_names"]]
        rows = int(meta[b"num_cases_per_batch"])
    except (TypeError, KeyError, AttributeError, ValueError) as problem:
        raise _damaged(f"{path}: {META}", f"it holds no class names ({problem!r})") from problem

    batches = {}
    for name in (*TRAIN, TEST):
        batch = _unpickle(files[name], f"{path}: {name}")
        batches[name] = _checked(batch, rows, len(names), f"{path}: {name}")
    images, labels, jpeg = zip(*batches.values())

    if all(hashlib.md5(files[name]).hexdigest() == md5 for name, md5 in OFFICIAL_MD5.items()):
        form = "official"
    elif any(jpeg):
        form = "official layout, JPEG re-encoded"
    else:
        form = "official" if path.is_file() else "official layout, unverified"
    return {
        "form": form,
        "class_names": "\n".join(names),
        "train_images": np.concatenate(images[:-1]),
        "train_labels": np.concatenate(labels[:-1]),
        "test_images": images[-1],
        "test_labels": labels[-1],
    }


def _unpacked(folder):
    """Return the bytes of every file of the unpacked folder, by name."""
    files = {}
    for name in (META, *TRAIN, TEST):
        try:
            files[name] = (folder / name).read_bytes()
        except FileNotFoundError:
            raise _damaged(f"{folder}: {name}", "the file is missing") from None
    return files


def _archived(path):
    """Return the bytes of every file of the archive, by name."""
    (official,) = REAL.files
    if sha256(path) != official.sha256:
        size = f"{path.stat().st_size} of {official.size_bytes} bytes"
        raise _damaged(path, f"it is not the official archive (checksum differs, {size})")
    with tarfile.open(path, "r:gz") as archive:
        return {
            member.name.rpartition("/")[2]: archive.extractfile(member).read() for member in archive if member.isfile()
        }


class _Unpickler(pickle.Unpickler):
    """Unpickler restricted to NumPy arrays, because a pickle can run arbitrary code."""

    ADMITTED = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy.core.numeric", "_frombuffer"),
            ("numpy._core.numeric", "_frombuffer"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module, name):
        if (module, name) not in self.ADMITTED:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which does not belong in a batch")
        return super().find_class(module, name)


def _unpickle(content, where):
    try:
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as problem:  # a damaged pickle can raise almost any exception
        raise _damaged(where, f"it cannot be unpickled ({problem})") from problem


def _checked(batch, rows, classes, where):
    """Return a batch's images, its labels, and whether they come from JPEG files."""
    try:
        data, labels = batch[b"data"], np.array(batch[b"labels"], np.int32)
        first = bytes(batch.get(b"filenames", [b""])[0])
        shape, dtype = data.shape, data.dtype
    except Exception as problem:
        raise _damaged(where, f"it is not a batch of images ({problem!r})") from problem
    if shape != (rows, 3072) or dtype != np.uint8:
        raise _damaged(where, f"its data is {dtype} {shape}, not uint8 ({rows}, 3072)")
    if labels.shape != (rows,) or labels.min() < 0 or labels.max() >= classes:
        raise _damaged(where, f"its labels are not {rows} numbers from 0 to {classes - 1}")
    images = data.reshape(rows, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), labels, first.endswith(b".jpg")


ARCHIVE = Archive(
    file="cifar-10-python.tar.gz",
    address="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    size_bytes=170_498_071,
    sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    mirror="DDL_CIFAR10_URL",
)
OTHERS = ("cifar-10-binary.tar.gz", "cifar-10-matlab.tar.gz", "cifar-10.zip", "train.7z", "train-*.parquet")
REAL = RealSet("cifar10", "CIFAR-10", (ARCHIVE,), _decode, unpacked=FOLDER, others=OTHERS)
