"""How much work a graph does for a picture, from its operations and their shapes.

Matrix products and convolutions count their multiplications, factorizations n³; any other operation counts the numbers
that it takes or gives, whichever are more. Only what leads to the graph's outputs counts.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from course.challenge.operations import ASSIGNS, CALLS, FACTORIZATIONS

# What computes nothing: it moves, names or reshapes numbers, or reads them.
FREE = frozenset(
    "Cast Const EnsureShape ExpandDims Identity IdentityN NoOp Placeholder PreventGradient Reshape Shape ShapeN Size "
    "Rank Squeeze StopGradient VarHandleOp".split()
)
PRODUCTS = ("Conv2D", "DepthwiseConv2dNative", "MatMul", "BatchMatMul", "Einsum", "Dilation2D")
PLACES = 36 * 36  # that one pass goes over, at most: a picture's pixels, and two around them


class Uncounted(Exception):
    """An operation whose arithmetic the graph does not tell: its name, and why."""


@dataclass(frozen=True)
class Work:
    """What a graph does for each of the pictures of its first input.

    `passes` is how often the kernel that is used most often goes over a picture: in several operations, over several
    copies in a batch, or over more than `PLACES` places.
    """

    operations: float
    passes: int


def work(
    graph: "tf.compat.v1.GraphDef",
    inputs: Mapping[str, tf.TensorSpec],
    variables: Mapping[str, tf.TensorSpec],
    outputs: Sequence[str],
    strict: bool,
    kernels: Mapping[str, object] | None = None,
) -> Work:
    """Count the work of a graph, which has placeholders by the names of the tensors `inputs` and `variables`.

    `outputs` are names of tensors and of operations, and `kernels` what each variable counts as, where several are one.
    Calls, conditions, loops and products that cannot be counted raise `Uncounted`. What else has a shape that is known
    only when it runs counts nothing, or raises it too if this is `strict`.
    """
    whole, feeds, handles = _whole(graph, inputs, variables)
    reached = {whole.get_operation_by_name(f"counted/{name.partition(':')[0]}") for name in outputs}
    for operation in reversed(whole.get_operations()):  # whatever one takes was made before it
        if operation in reached:
            reached.update((tensor.op for tensor in operation.inputs), operation.control_inputs)
    ordered = [operation for operation in whole.get_operations() if operation in reached]
    total = 0.0
    for operation in ordered:
        try:
            total += _count(operation)
        except ValueError as error:
            if strict or operation.type in CALLS or operation.type.startswith(PRODUCTS):
                raise Uncounted(operation.name.removeprefix("counted/"), str(error)) from None
    (first, *_) = feeds.values()
    named = kernels or {name: name for name in variables}
    made = {handles[name].op: named[name] for name, spec in variables.items() if len(spec.shape) > 1}
    return Work(total / first.shape[0], _passes(ordered, first, made))


def flows(
    graph: "tf.compat.v1.GraphDef", inputs: Mapping[str, tf.TensorSpec], variables: Mapping[str, tf.TensorSpec]
) -> list[tuple[str, str]]:
    """Return which inputs and variables of two dimensions or more come whole into which variables, by their names.

    Whole is what stays of one size on its way. What calls, conditions and loops assign is left out.
    """
    whole, feeds, handles = _whole(graph, inputs, variables)
    names = {tensor.name: name for name, tensor in (feeds | handles).items()}
    sources = {tensor.name: {name} for name, tensor in feeds.items() if len(tensor.shape) > 1}
    found = []
    for operation in whole.get_operations():
        inputs_ = list(operation.inputs)
        name = names.get(inputs_[0].name) if inputs_ else None
        if operation.type == "ReadVariableOp" and name:
            sources[operation.outputs[0].name] = {name} if len(variables[name].shape) > 1 else set()
            continue
        if operation.type in ASSIGNS and name:
            values = [tensor for tensor in inputs_[1:] if tensor.shape == variables[name].shape]
            found += [(source, name) for tensor in values for source in sources.get(tensor.name, ())]
            continue
        for place, output in enumerate(operation.outputs):
            size = output.shape.num_elements()
            given = inputs_[place : place + 1] if operation.type == "IdentityN" else inputs_
            alike = [tensor.name for tensor in given if size and tensor.shape.num_elements() == size]
            sources.setdefault(output.name, set().union(*(sources.get(each, set()) for each in alike)))
    return found


def _whole(graph, inputs, variables):
    """Import a graph with placeholders for its inputs, and handles for its variables; return it, these and those."""
    with tf.Graph().as_default() as whole:
        feeds = {name: tf.compat.v1.placeholder(spec.dtype, spec.shape) for name, spec in inputs.items()}
        handles = {
            name: tf.raw_ops.VarHandleOp(dtype=spec.dtype, shape=spec.shape, shared_name=name)
            for name, spec in variables.items()
        }
        tf.graph_util.import_graph_def(graph, feeds | handles, name="counted")
    return whole, feeds, handles


def _passes(operations, pictures, kernels):
    """Return the passes of a `Work`; `operations` are in an order in which they can be carried out."""
    count, uses = pictures.shape[0], Counter()
    seen = {pictures.op}  # what depends on the pictures
    held = {}  # the kernels that a value is made of, until a product takes them
    for operation in operations:
        if operation in kernels:
            held[operation] = {kernels[operation]}
            continue
        inputs = list(operation.inputs)
        if any(tensor.op in seen for tensor in inputs):
            seen.add(operation)
        product = operation.type.startswith(PRODUCTS) or operation.type == "Mul"
        if product and operation in seen:
            fixed = [tensor for tensor in inputs if tensor.op not in seen] or inputs[-1:]
            (data, *_) = [tensor for tensor in inputs if tensor.op in seen]
            for name in set().union(*(held.get(tensor.op, set()) for tensor in fixed)):
                uses[name] += _copies(operation, data, count)
        if not product or operation not in seen:
            held[operation] = set().union(*(held.get(tensor.op, set()) for tensor in inputs))
    return math.ceil(max(uses.values(), default=1))


def _copies(operation, data, count):
    """Return how often a product goes over each picture."""
    if operation.type in ("Conv2D", "DepthwiseConv2dNative", "Dilation2D"):
        places = _shape(operation.outputs[0])[1:3]
        return data.shape[0] / count * math.ceil(math.prod(places) / PLACES)
    while data.shape[0] != count and data.op.type in ("Cast", "Identity", "Reshape", "Squeeze", "Transpose"):
        data = data.op.inputs[0]
    return data.shape[0] // count if data.shape[0] % count == 0 else 1


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
    if kind in FACTORIZATIONS:
        shape = _shape(operation.inputs[0])
        return math.prod(shape) * min(shape[-2:])
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
