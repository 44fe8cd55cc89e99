"""The functions that a submission consists of, as graphs: what each is given, and which variables it may touch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from course.challenge import rules
from course.challenge.rules import Refused

ROLES = ("weight", "statistic", "state")  # trainable, the model's others, the optimizer's
DTYPES = ("float32", "int32", "int64", "bool")


@dataclass(frozen=True)
class Function:
    """One of the functions that a submission consists of, and the roles of variables that it may touch."""

    name: str
    reads: tuple[str, ...] = ()
    assigns: tuple[str, ...] = ()
    optional: bool = False
    learns: bool = True  # False: between the gradients and the weights, where no network is evaluated
    differentiated: bool = False


MODEL = ("weight", "statistic")
FUNCTIONS = {
    function.name: function
    for function in (
        Function("augment"),
        Function("forward_training", MODEL, ("statistic",), differentiated=True),
        Function("loss", differentiated=True),
        Function("update", ("weight", "state"), ("weight", "state"), learns=False),
        Function("forward_inference", MODEL),
        Function("prepare", MODEL, MODEL, optional=True),
        Function("finish", ROLES, ROLES, optional=True, learns=False),
    )
}


COUNTED = {"forward_training", "forward_inference", "prepare"}  # functions whose arithmetic counts


def signature(name: str, ghost_batch: int, weights: Sequence[Sequence[int]]) -> tuple[list, list]:
    """Return the inputs and outputs of a function, as `tf.TensorSpec`; `weights` are the weights' shapes."""
    number, batch = tf.TensorSpec([]), [ghost_batch]
    pictures, logits = tf.TensorSpec([*batch, 32, 32, 3]), tf.TensorSpec([*batch, rules.CLASSES])
    labels = numbers = tf.TensorSpec(batch, tf.int32)
    epoch, key = tf.TensorSpec([], tf.int32), tf.TensorSpec([2], tf.int32)
    inference = rules.INFERENCE_BATCH
    return {
        "augment": ([pictures, numbers, epoch, key], [pictures]),
        "forward_training": ([pictures], [logits]),
        "loss": ([logits, labels], [tf.TensorSpec(batch)]),
        "update": ([*(tf.TensorSpec(shape) for shape in weights), number], []),
        "forward_inference": ([tf.TensorSpec([inference, 32, 32, 3])], [tf.TensorSpec([inference, rules.CLASSES])]),
        "prepare": ([tf.TensorSpec([rules.PREPARE_SAMPLES, 32, 32, 3])], []),
        "finish": ([], []),
    }[name]


class Problem(Refused):
    """A graph that breaks a rule: in which of `FUNCTIONS`, at which node of which function of its library."""

    def __init__(self, function: str, what: str, node: str = "", inner: str = ""):
        super().__init__(f"{function}: {what}")
        self.function, self.what, self.node, self.inner = function, what, node, inner


@dataclass(frozen=True)
class Variable:
    """A variable as its builder describes it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * tf.as_dtype(self.dtype).size


@dataclass(frozen=True)
class Exported:
    """A graph with the names of its tensors: inputs, outputs, control outputs, and which input is which variable."""

    graph: "tf.compat.v1.GraphDef"
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    variables: Mapping[str, int] = field(default_factory=dict)  # the number of each, by the input's name

    def names(self) -> dict:
        """Return everything but the graph, for JSON."""
        lists = {name: list(getattr(self, name)) for name in ("inputs", "outputs", "controls")}
        return {**lists, "variables": dict(self.variables)}
