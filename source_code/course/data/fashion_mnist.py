"""Reader for Fashion-MNIST: 28 x 28 gray images of ten kinds of clothes.

Xiao, Rasul and Vollgraf 2017, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms",
arXiv:1708.07747: four gzip files in the IDX format, a header of big-endian int32 followed by bytes.
"""

import gzip
import zlib
from functools import partial

import numpy as np

from course.data.download import Archive
from course.data.real import RealSet, damaged

OFFICIAL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
FILES = (
    ("train-images-idx3-ubyte.gz", 26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
    ("train-labels-idx1-ubyte.gz", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
    ("t10k-images-idx3-ubyte.gz", 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
    ("t10k-labels-idx1-ubyte.gz", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
)
IMAGES, LABELS = 2051, 2049  # IDX magic numbers for bytes in three dimensions and in one
_damaged = partial(damaged, "fashion_mnist")


def _decode(paths):
    """Return the images, zero-padded to 32 x 32 and repeated in three channels, and their labels."""
    arrays = {}
    for part, (images, labels) in zip(("train", "test"), (paths[:2], paths[2:]), strict=True):
        gray, kinds = _idx(images, IMAGES), _idx(labels, LABELS)
        if gray.shape[1:] != (28, 28) or len(gray) != len(kinds) or kinds.max(initial=0) > 9:
            raise _damaged(images, f"it holds {gray.shape} beside {len(kinds)} labels of 0 to {kinds.max(initial=0)}")
        padded = np.pad(gray, ((0, 0), (2, 2), (2, 2)))
        arrays[f"{part}_images"] = np.repeat(padded[..., None], 3, axis=3)
        arrays[f"{part}_labels"] = kinds.astype(np.int32)
    return arrays


def _idx(path, magic):
    """Return the contents of an IDX file as an array."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as problem:
        raise _damaged(path, f"it cannot be unpacked ({problem})") from problem
    head = np.frombuffer(content[: 4 * (1 + magic % 256)], ">i4")
    shape = tuple(map(int, head[1:]))
    if not len(head) or head[0] != magic or 4 * len(head) + np.prod(shape) != len(content):
        raise _damaged(path, "its header is invalid")
    return np.frombuffer(content, np.uint8, offset=4 * len(head)).reshape(shape)


REAL = RealSet(
    "fashion_mnist",
    "Fashion-MNIST",
    tuple(Archive(file, f"{OFFICIAL}/{file}", *about, "DDL_FASHION_MNIST_URL") for file, *about in FILES),
    _decode,
    class_names=("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
