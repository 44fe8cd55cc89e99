"""The data sets by name: load one, fetch one, list them."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from ddl.data import cifar10, store, synthetic
from ddl.data.dataset import DataError, balanced_subset
from ddl.data.download import download
from ddl.record import data_dir

__all__ = ["Entry", "fetch", "is_there", "listing", "load"]

NAMES = ("cifar10", "synthetic")


def load(name, *, train_samples=None, test_samples=None, seed=0):
    """Return a data set, or a class-balanced part of one. Nothing is downloaded.

    Parameters
    ----------
    name : str
        ``"cifar10"``, ``"synthetic"``, or ``"auto"``: CIFAR-10 where it is there, else the
        generated one, with the reason in the result's `note`.
    train_samples, test_samples : int, optional
        Sizes of the parts; by default 50,000 and 10,000. A smaller part is the beginning of a
        larger one.
    seed : int
        Chooses the part of CIFAR-10, or the generated pictures. Keep it the same for runs that
        are compared: it is not the seed of a run.

    Returns
    -------
    DataSet

    Raises
    ------
    DataError
        When the data set is not there, is damaged, or has fewer samples.
    """
    folder, note = data_dir(), None
    if name == "auto":
        name = "cifar10" if is_there("cifar10") else "synthetic"
        if name == "synthetic":
            note = f"CIFAR-10 is not in {folder}, so generated pictures are used."
    _known(name)
    if name == "synthetic":
        return replace(synthetic.read(folder, train_samples, test_samples, seed), note=note)
    data = cifar10.read(folder)
    for part, samples in (("train", train_samples), ("test", test_samples)):
        images, labels = getattr(data, f"{part}_images"), getattr(data, f"{part}_labels")
        if samples is None:
            continue
        if not 0 < samples <= len(labels):
            raise DataError(f"cifar10 has {len(labels)} {part} samples: {samples} is not possible.")
        if samples < len(labels):
            chosen = balanced_subset(labels, samples, seed)
            parts = {f"{part}_images": images[chosen], f"{part}_labels": labels[chosen]}
            data = replace(data, **parts)
    return data


def is_there(name):
    """Say whether `load` would find a data set; ``"cifar10"`` is not opened for that."""
    _known(name)
    return (cifar10.source if name == "cifar10" else synthetic.cached)(data_dir()) is not None


def fetch(name, progress=None, address=None):
    """Make a data set be there: download CIFAR-10, or generate the synthetic one.

    One process does it, others that ask meanwhile wait and find it done. A damaged archive is
    replaced, a broken download continued.

    Parameters
    ----------
    name : {"cifar10", "synthetic"}
    progress : callable, optional
        Called with lines of text; by default they are printed.
    address : str, optional
        Of a mirror of the official archive; by default ``DDL_CIFAR10_URL``, else the official one.

    Raises
    ------
    DataError
        When it can not be done; the message says what can.
    """
    _known(name)
    say = progress or (lambda line: print(line, flush=True))
    folder = data_dir()
    try:
        with store.locked(
            folder / f"{name}.lock", lambda: say(f"{name}: another process fetches it; waiting")
        ):
            (_fetch_cifar10 if name == "cifar10" else _fetch_synthetic)(folder, say, address)
    except OSError as problem:
        raise DataError(
            f"{folder} can not be used: {problem}. Set DDL_DATA_DIR to a folder that you can write."
        ) from problem


def _fetch_cifar10(folder, say, address):
    try:
        data = cifar10.read(folder)
    except DataError as problem:
        if cifar10.source(folder):
            say(f"cifar10: {problem}")
        address = address or os.environ.get("DDL_CIFAR10_URL") or cifar10.ARCHIVE.address
        say(f"cifar10: downloading {address} to {folder}")
        download(replace(cifar10.ARCHIVE, address=address), folder, say)
        data = cifar10.read(folder)
    say(f"cifar10: {data.train_samples} + {data.test_samples} pictures, {data.form}, in {folder}")


def _fetch_synthetic(folder, say, _):
    if synthetic.cached(folder) is None:
        say(f"synthetic: generating {sum(synthetic.WHOLE.values())} pictures in {folder}")
        synthetic.make(folder)
    say(f"synthetic: {synthetic.WHOLE['train']} + {synthetic.WHOLE['test']} pictures in {folder}")


@dataclass(frozen=True)
class Entry:
    """One line of `listing`: a data set and its state on this machine.

    `form` is as in `DataSet`, or what is wrong; `samples` and `size_bytes` are 0 where it is not
    there. The size is that of the folder's files for it, the mapped copy included.
    """

    name: str
    there: bool
    form: str
    path: Path
    samples: int
    size_bytes: int

    def __str__(self):
        if not self.there:
            return f"{self.name:10} not here: {self.form}"
        return (
            f"{self.name:10} {self.samples} pictures, {self.form}, "
            f"{self.size_bytes / 2**20:.0f} MiB, {self.path}"
        )


def listing():
    """Return an `Entry` for each data set, in the order CIFAR-10, synthetic."""
    folder = data_dir()
    generated = synthetic.path(folder)
    try:
        data = cifar10.read(folder)
        source = cifar10.source(folder)
        files = [source, cifar10.mapped(folder)]
        first = Entry("cifar10", True, data.form, source, _samples(data), _bytes(*files))
    except DataError as problem:
        first = Entry("cifar10", False, str(problem), folder, 0, 0)
    if is_there("synthetic"):
        samples = sum(synthetic.WHOLE.values())
        second = Entry("synthetic", True, "generated", generated, samples, _bytes(generated))
    else:
        second = Entry("synthetic", False, "it is generated when first used", generated, 0, 0)
    return [first, second]


def _samples(data):
    return data.train_samples + data.test_samples


def _bytes(*paths):
    files = [file for path in paths for file in (path.iterdir() if path.is_dir() else [path])]
    return sum(file.stat().st_size for file in files if file.exists())


def _known(name):
    if name not in NAMES:
        raise DataError(f"There is no data set {name!r}; there are: {', '.join(NAMES)}.")
