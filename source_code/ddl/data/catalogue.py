"""The data sets by name: load one, fetch one, list them."""

from dataclasses import replace

from ddl.data import cifar10, store, synthetic
from ddl.data.dataset import DataError, balanced_subset

__all__ = ["fetch", "is_there", "listing", "load"]

NAMES = ("cifar10", "synthetic")


def _folder():
    from ddl.record import data_dir

    return data_dir()


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
    folder = _folder()
    if name == "auto":
        if is_there("cifar10"):
            return load("cifar10", train_samples=train_samples, test_samples=test_samples, seed=seed)
        data = load("synthetic", train_samples=train_samples, test_samples=test_samples, seed=seed)
        return replace(data, note=f"CIFAR-10 is not in {folder}, so generated pictures are used.")
    _known(name)
    if name == "synthetic":
        return synthetic.read(folder, train_samples, test_samples, seed)
    data = cifar10.read(folder)
    for part, samples in (("train", train_samples), ("test", test_samples)):
        labels = getattr(data, f"{part}_labels")
        if samples is None or samples == len(labels):
            continue
        if not 0 < samples < len(labels):
            raise DataError(f"cifar10 has {len(labels)} {part} samples: {samples} is not possible.")
        chosen = balanced_subset(labels, samples, seed)
        images = getattr(data, f"{part}_images")[chosen]
        data = replace(data, **{f"{part}_images": images, f"{part}_labels": labels[chosen]})
    return data


def is_there(name):
    """Say whether `load` would find a data set without making it first."""
    _known(name)
    if name == "cifar10":
        return cifar10.source(_folder()) is not None
    return synthetic.cached(_folder()) is not None


def _known(name):
    if name not in NAMES:
        raise DataError(f"There is no data set {name!r}; there are: {', '.join(NAMES)}.")


def fetch(name, progress=None):
    """Make a data set be there. (Download follows.)"""
    load(name)


def listing():
    """Return one row per data set."""
    return []
