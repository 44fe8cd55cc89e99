"""Data sets and the order in which a distributed run reads them.

Images: CIFAR-10 (``cifar10``), Street View House Numbers (``svhn``), and generated images of the same shape
(``synthetic``) for machines without a download. Questions: Quora's (``quora``) and generated ones (``questions``).
Nothing here imports TensorFlow except `course.data.augment`, which runs inside the graph, and `course.data.tensors`.
"""

from course.data.batches import Order, shard
from course.data.catalog import add, fetch, is_there, listing, load, load_questions
from course.data.dataset import DataError, DataSet
from course.data.quora import Questions

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
