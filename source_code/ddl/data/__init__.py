"""Data sets, and the order in which a distributed run reads them.

Two data sets: the real CIFAR-10 pictures (``cifar10``), and a generated one of the same shape
(``synthetic``) for machines that do not have them. Nothing here imports TensorFlow except
`ddl.data.augment`, which runs inside the graph.
"""

from ddl.data.batches import Order, shard
from ddl.data.catalogue import fetch, is_there, listing, load
from ddl.data.dataset import DataError, DataSet

__all__ = ["DataError", "DataSet", "Order", "fetch", "is_there", "listing", "load", "shard"]
