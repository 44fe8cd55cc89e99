"""What a submission's graphs and variables are checked for, in the builder and again on each rank."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from course.challenge import rules
from course.challenge.arithmetic import Uncounted, Work, flows, work
from course.challenge.functions import COUNTED, FUNCTIONS, ROLES, Exported, Problem, Variable, signature
from course.challenge.rules import Refused
from course.challenge.walk import Walk


def check(exported: Mapping[str, Exported], variables: Sequence[Variable], ghost_batch: int) -> tuple[int, int]:
    """Check graphs and variables against the rules: a Problem or another Refused says what is wrong.

    Return as how many samples a picture counts in a step, and `prepare`.
    """
    for name in FUNCTIONS:
        if name not in exported and not FUNCTIONS[name].optional:
            raise Refused(f"{name} is missing: build the submission again")
    if sum(each.graph.ByteSize() for each in exported.values()) > rules.GRAPH_BYTES:
        raise Refused(
            f"the graphs take more than {rules.GRAPH_BYTES / 2**20:.0f} MiB: a Python loop may have written the same "
            "operations many times; use tf.while_loop"
        )
    constants = 0
    for name, each in exported.items():
        walk = Walk(FUNCTIONS[name], each, variables)
        walk.run()
        constants += walk.constant_bytes
        if constants > rules.CONSTANT_BYTES:
            raise Problem(
                name,
                f"constants in the graphs take more than {rules.CONSTANT_BYTES // 1024} KiB: compute them from fewer "
                "numbers, or keep them in a variable of the model that its initializer fills",
                walk.largest,
            )
        if walk.data_bytes > rules.DATA_BYTES and "weight" in FUNCTIONS[name].assigns:
            raise Problem(
                name,
                f"arrays of numbers in its graph take {walk.data_bytes:,} bytes, and {rules.DATA_BYTES:,} are the most "
                "where weights are assigned: these are trained, and not brought along",
                walk.largest,
            )
        if name == "forward_training":
            statistics_bytes = sum(variables[number].bytes for number in walk.assigned)
    _check_sizes(variables, statistics_bytes)
    return _counts(_work(exported, variables, ghost_batch))


def _work(exported, variables, ghost_batch):
    """Count what each function that sees pictures does for one of them, by its name."""
    shapes = [each.shape for each in variables if each.role == "weight"]
    given = {}
    for name, each in exported.items():
        takes, _ = signature(name, ghost_batch, shapes)
        specs = {
            tensor: tf.TensorSpec(variables[number].shape, variables[number].dtype)
            for tensor, number in each.variables.items()
        }
        given[name] = each.graph, dict(zip(each.inputs, takes, strict=True)), specs
    found, name = {}, ""
    try:
        same = _copies({name: given[name] for name in given if "weight" in FUNCTIONS[name].assigns}, exported)
        for name in sorted(COUNTED & exported.keys()):
            each = exported[name]
            kernels = {tensor: same.get(number, number) for tensor, number in each.variables.items()}
            outputs = [*each.outputs, *each.controls]
            found[name] = work(*given[name], outputs, name == "forward_inference", kernels)
    except Uncounted as error:
        node, why = error.args
        raise Problem(
            name,
            f"the arithmetic of {node!r} cannot be counted, as {why}: write it without tf.function, and without "
            "conditions and loops of the graph (Python's own, over numbers, can be counted)",
            node,
        ) from None
    except (ValueError, TypeError, KeyError, tf.errors.OpError) as error:
        raise Problem(name, f"its graph cannot be read ({str(error).splitlines()[0]}): build it again") from error
    return found


def _copies(given, exported):
    """Return what counts as one kernel, by the numbers of variables: those that the same values come into."""
    same: dict[object, object] = {}

    def root(each):
        while each in same:
            each = same[each]
        return each

    for name, (graph, inputs, specs) in given.items():
        numbers = exported[name].variables
        for source, target in flows(graph, inputs, specs):
            one, other = root(numbers.get(source, (name, source))), root(numbers[target])
            if one != other:
                same[one] = other
    return {number: root(number) for number in same}


def _counts(found: Mapping[str, Work]) -> tuple[int, int]:
    """Return as how many samples a picture counts in a step, and `prepare`; refuse evaluations of several views."""
    training, inference = found["forward_training"], found["forward_inference"]
    if inference.operations > rules.MOST_ARITHMETIC * training.operations:
        raise Problem(
            "forward_inference",
            f"evaluations take {inference.operations:,.0f} operations for an image, and training's forward pass "
            f"{training.operations:,.0f}: several views of an image do not count",
        )
    # Up to a quarter more is left uncounted: norms and further outputs that only training has.
    passes = max(
        training.passes, inference.passes, math.ceil(training.operations / max(inference.operations, 1) - 0.25)
    )
    if "prepare" not in found:
        return passes, 0
    # Forward and backward together take three times what the forward pass takes.
    step = 3 * max(training.operations, rules.BASELINE_ARITHMETIC)
    return passes, rules.PREPARE_SAMPLES * max(1, math.ceil(found["prepare"].operations / step))


def _check_sizes(variables, statistics):
    """Check how many bytes variables take; `statistics` are those of what the forward pass assigns."""
    weights, others, state = (sum(each.bytes for each in variables if each.role == role) for role in ROLES)
    if not weights:
        raise Refused("model: it has no trainable weights, so there is nothing to train")
    for what, taken, most, advice in (
        ("model: its variables", weights + others, rules.MODEL_BYTES, "make it smaller"),
        (
            "forward_training: the variables that it assigns",
            *(statistics, rules.STATISTICS_BYTES, "keep statistics of images there, not the images"),
        ),
        (
            "optimizer: its variables",
            *(state, rules.STATE_BYTES + 4 * weights, "it may keep four times the weights and 1 MiB"),
        ),
    ):
        if taken > most:
            raise Refused(f"{what} take {taken / 2**20:,.2f} MiB, and {most / 2**20:,.2f} MiB is the most: {advice}")


def check_settings(settings: Mapping) -> None:
    """Check the numbers and names that a file sets, as one who trusts nobody; Refused says which is wrong."""

    samples, ghost, batch = settings.get("samples"), settings.get("ghost_batch"), rules.GLOBAL_BATCH
    for name, value in (("SAMPLES", samples), ("GHOST_BATCH", ghost)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refused(f"{name} is {value!r}: it must be a whole number")
    if samples % batch or not batch <= samples <= rules.MOST_SAMPLES:
        raise Refused(
            f"SAMPLES is {samples:,}: it must be a multiple of the global batch, from {batch:,} to "
            f"{rules.MOST_SAMPLES:,}"
        )
    if not 2 <= ghost <= batch or batch % ghost:
        raise Refused(
            f"GHOST_BATCH is {ghost}: it must be 2 or more, and divide a rank's part of a step's {batch:,} images"
        )
    for name, choices in (("compression", rules.COMPRESSIONS), ("precision", rules.PRECISIONS)):
        if (value := settings.get(name)) not in choices:
            raise Refused(f"{name.upper()} is {value!r}: it must be one of {', '.join(map(repr, choices))}")


def check_start(arrays: Sequence[np.ndarray], variables: Sequence[Variable]) -> None:
    """Check the optimizer's initial values, which are no place for knowledge; Refused says which are wrong."""
    weights = [array for array, variable in zip(arrays, variables, strict=True) if variable.role == "weight"]
    for array, variable in zip(arrays, variables, strict=True):
        if variable.role == "state" and not (_is_plain(array) or any(np.array_equal(array, each) for each in weights)):
            raise Refused(
                f"optimizer: the initial values of {variable.name!r} are neither one number, nor those of an identity, "
                "nor a weight's own: what else the optimizer needs comes from gradients"
            )


def _is_plain(array):
    """Whether all entries are one number, except for a matrix's diagonal, which may be another."""
    diagonal = np.eye(*array.shape, dtype=bool) if array.ndim == 2 else np.zeros(array.shape, bool)
    return len(np.unique(array[diagonal])) <= 1 and len(np.unique(array[~diagonal])) <= 1
