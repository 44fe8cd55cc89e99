"""Data sets, and the order in which a distributed run reads them.

Two data sets: the real CIFAR-10 pictures (``cifar10``), and a generated one of the same shape
(``synthetic``) for machines that do not have them. Nothing here imports TensorFlow except
`ddl.data.augment`, which runs inside the graph. The names below are imported on first use.
"""

from importlib import import_module

_HOME = {
    "DataError": "dataset",
    "DataSet": "dataset",
    "Order": "batches",
    "fetch": "catalogue",
    "is_there": "catalogue",
    "listing": "catalogue",
    "load": "catalogue",
    "shard": "batches",
}

__all__ = list(_HOME)


def __getattr__(name):
    if name in _HOME:
        return getattr(import_module(f"ddl.data.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ddl.data' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
