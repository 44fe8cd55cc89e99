"""Data sets, and the order in which a distributed run reads them.

Pictures: CIFAR-10 (``cifar10``), Street View House Numbers (``svhn``), and generated ones of the same shape
(``synthetic``) for machines that have neither. Questions: Quora's (``quora``) and generated ones (``questions``).
Nothing here imports TensorFlow except `ddl.data.augment`, which runs inside the graph, and `ddl.data.tensors`.
"""

from ddl.data.batches import Order, shard
from ddl.data.catalogue import add, fetch, is_there, listing, load, load_questions
from ddl.data.dataset import DataError, DataSet
from ddl.data.quora import Questions

__all__ = [
    "DataError",
    "DataSet",
    "Order",
    "Questions",
    "add",
    "fetch",
    "is_there",
    "listing",
    "load",
    "load_questions",
    "shard",
]
