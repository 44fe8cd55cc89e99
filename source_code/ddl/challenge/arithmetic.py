"""How much arithmetic a graph takes for a picture, from its operations and their shapes.

Matrix products and convolutions count their multiplications; any other operation counts the numbers that it takes or
gives, whichever are more. Only what leads to the graph's outputs counts.
"""

import math
import re
from collections.abc import Mapping, Sequence

import tensorflow as tf

__all__ = ["Uncounted", "per_picture"]

# What computes nothing: it moves, names or reshapes numbers, or reads them.
FREE = frozenset(
    "Cast Const EnsureShape ExpandDims Identity IdentityN NoOp Placeholder PreventGradient Reshape Shape ShapeN Size "
    "Rank Squeeze StopGradient VarHandleOp".split()
)
CALLS = frozenset(
    "Case If PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile While".split()
)


class Uncounted(Exception):
    """An operation whose arithmetic the graph does not tell: its name, and why."""

    def __init__(self, node: str, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why


def per_picture(
    graph: "tf.compat.v1.GraphDef",
    inputs: Mapping[str, tf.TensorSpec],
    variables: Mapping[str, tf.TensorSpec],
    outputs: Sequence[str],
    strict: bool,
) -> float:
    """Return the arithmetic for each of the pictures of the first input.

    Parameters
    ----------
    graph
        With placeholders, by the names of the tensors `inputs` and `variables`.
    outputs
        Names of tensors, and of operations.
    strict
        Raise `Uncounted` at what cannot be counted; else it counts nothing. That is what a call does, be it of a
        function, a condition or a loop, and what has a shape that is known only when it runs.
    """
    with tf.Graph().as_default() as whole:
        feeds = {name: tf.compat.v1.placeholder(spec.dtype, spec.shape) for name, spec in inputs.items()}
        feeds |= {
            name: tf.raw_ops.VarHandleOp(dtype=spec.dtype, shape=spec.shape, shared_name=name)
            for name, spec in variables.items()
        }
        tf.graph_util.import_graph_def(graph, feeds, name="counted")
    waiting = [whole.get_operation_by_name(f"counted/{name.partition(':')[0]}") for name in outputs]
    seen, total = set(), 0.0
    while waiting:
        operation = waiting.pop()
        if operation.name in seen:
            continue
        seen.add(operation.name)
        waiting += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        try:
            total += _count(operation)
        except ValueError as error:
            if strict:
                raise Uncounted(operation.name.removeprefix("counted/"), str(error)) from None
    (first, *_) = inputs.values()
    return total / first.shape[0]


def _count(operation):
    kind = operation.type
    if kind in CALLS:
        raise ValueError("how often what it calls is carried out is known only when it runs")
    if kind in FREE:
        return 0
    products = _products(operation)
    if products is not None:
        return products
    if kind == "ReadVariableOp":
        return 0
    given = operation.outputs[:1] if kind.startswith("FusedBatchNorm") else operation.outputs  # the rest is scratch
    return max([_elements(tensor) for tensor in (*operation.inputs, *given)], default=0)


def _products(operation):
    """Return the multiplications of a matrix product or a convolution; None for any other operation."""
    kind = operation.type
    if kind in ("Conv2D", "DepthwiseConv2dNative"):
        kernel = _shape(operation.inputs[1])
        inner = kernel[:3] if kind == "Conv2D" else kernel[:2]
        return _elements(operation.outputs[0]) * math.prod(inner)
    if kind.startswith(("MatMul", "BatchMatMul")):
        left = _shape(operation.inputs[0])
        turned = operation.get_attr("transpose_a" if kind == "MatMul" else "adj_x")
        return _elements(operation.outputs[0]) * left[-2 if turned else -1]
    if kind == "Einsum":
        terms = operation.get_attr("equation").decode().split("->")[0].split(",")
        sizes, spread = {}, 1
        for term, tensor in zip(terms, operation.inputs, strict=True):
            shape = _shape(tensor)
            before, dots, after = re.sub(r"\s", "", term).partition("...")
            named = [*zip(before, shape, strict=False), *zip(after[::-1], shape[::-1], strict=False)]
            sizes.update(named)
            spread = max(spread, math.prod(shape[len(before) : len(shape) - len(after)]) if dots else 1)
        return math.prod(sizes.values()) * spread
    return None


def _shape(tensor):
    if not tensor.shape.is_fully_defined():
        raise ValueError(f"the shape of {tensor.name.removeprefix('counted/')!r} is known only when it runs")
    return tensor.shape.as_list()


def _elements(tensor):
    return 0 if tensor.dtype in (tf.resource, tf.variant) else math.prod(_shape(tensor))
