"""A rank's line to the grader, in a launch that is graded (`course.grader.launches`).

The grader hands out data on request and notes who had which; what a rank gives to the collectives of Horovod or of
torch.distributed is noted, too.
"""

import json
import sys
import threading
from functools import partial

from ddl.errors import InputError

COLLECTIVES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter")
# Operations of torch.distributed, to which all its ways lead, DistributedDataParallel's as well: those that send their
# first argument, and those that send their second.
TORCHS = [
    "allreduce_ allreduce_coalesced_ broadcast_ reduce_ send".split(),
    "_allgather_base_ allgather_ allgather_coalesced_ allgather_into_tensor_coalesced_ gather_ scatter_ "
    "_reduce_scatter_base_ reduce_scatter_ alltoall_ alltoall_base_".split(),
]
MOST_VALUES = 2_000  # noted of a tensor

_examiner = None


def examiner() -> "Examiner | None":
    """Return this rank's line to the grader; None where nothing is graded."""
    return _examiner


def connect(connection, rank: int) -> None:
    """Begin a graded launch in this process, a rank whose `connection` leads to the grader."""
    from horovod.tensorflow import mpi_ops

    global _examiner
    _examiner = Examiner(connection)
    mpi_ops.MPI_LIB = _NotedOperations(mpi_ops.MPI_LIB, _examiner, rank)
    if "torch" in sys.modules:
        _examiner.noted_operations = _note_torchs(_examiner, rank)


class Examiner:
    """Asks the grader, one message after another."""

    def __init__(self, connection):
        self._connection = connection
        self._lock = threading.Lock()  # TensorFlow's threads make notes, too

    def given(self) -> dict:
        """Return what this rank is given once and for all."""
        return self._ask({"do": "begin"})

    def samples(self, numbers: list[int]) -> list:
        """Return the samples with these numbers, as this rank has them."""
        samples = self._ask({"do": "read", "numbers": numbers})
        if samples is None:
            raise InputError(f"there is no sample with one of the numbers {numbers}")
        return samples

    def note(self, event: str, **fields) -> None:
        """Have an event noted."""
        self._ask({"do": "note", "note": {"event": event, **fields}})

    def _ask(self, message):
        with self._lock:
            self._connection.send_bytes(json.dumps(message).encode())
            return json.loads(self._connection.recv_bytes())["value"]


class _NotedOperations:
    """Horovod's operations; what this rank sends by a collective is noted before it goes out."""

    def __init__(self, operations, examiner, rank):
        self._operations, self._examiner, self._rank = operations, examiner, rank

    def __getattr__(self, name):
        import tensorflow as tf

        operation = getattr(self._operations, name)
        if not any(collective in name for collective in COLLECTIVES):
            return operation

        def noted(tensors, **options):
            sends = options.get("root_rank", self._rank) == self._rank and "inplace" not in name
            notes = [
                tf.numpy_function(self._note, [tensor], [])
                for tensor in (tf.nest.flatten(tensors) if sends else [tf.zeros(0)])
            ]
            with tf.control_dependencies([note for note in notes if isinstance(note, tf.Operation)]):
                return operation(tf.nest.map_structure(tf.identity, tensors) if sends else tensors, **options)

        return noted

    def _note(self, values):
        self._examiner.note("sent", dtype=values.dtype.name, values=values.ravel()[:MOST_VALUES].tolist())


def _note_torchs(examiner, rank):
    """Have what this rank sends by torch.distributed noted before it goes out, as long as what is returned lives."""
    import torch

    def noted(operation, place, *arguments, **options):
        sends = operation is not torch.ops.c10d.broadcast_.default or arguments[2] == rank  # there, who does
        with torch._C._AutoDispatchBelowAutograd():
            sent = torch.utils._pytree.tree_leaves(arguments[place]) if sends else []
            for tensor in sent or [torch.zeros(0)]:
                values = tensor.reshape(-1)[:MOST_VALUES]
                examiner.note("sent", dtype=str(values.dtype).removeprefix("torch."), values=values.tolist())
            return operation(*arguments, **options)

    library = torch.library.Library("c10d", "IMPL")
    for place, names in enumerate(TORCHS):
        for name in names:
            library.impl(name, partial(noted, getattr(torch.ops.c10d, name).default, place), "Autograd")
    return library
