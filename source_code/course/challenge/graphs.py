"""A submission's graphs on a rank: read, checked, and called.

A submission's Python runs in the builder alone. What reaches a rank is data: one GraphDef for each of
`course.challenge.functions.FUNCTIONS`, initial values, and a description. `Program` checks all of it before the first
graph is imported, and needs no trust in who made it.
"""

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context  # no public name leads to a process's functions

from course.challenge import rules
from course.challenge.checks import check, check_settings, check_start
from course.challenge.functions import DTYPES, FUNCTIONS, MODEL, ROLES, Exported, Problem, Variable, signature
from course.challenge.operations import KEPT
from course.challenge.rules import Refused

FEATURES = 256  # that are looked at of one tensor: more are projected at random
SHUFFLED = 16  # numbers in a constant that may hold knowledge


class Program:
    """The graphs of a built submission, checked, and its variables; what a rank trains.

    A folder that holds anything that a builder may not hand over is Refused.

    `settings` are ``samples``, ``ghost_batch``, ``compression`` and ``precision``; `passes` is as how many samples a
    picture counts in a step, `prepare_samples` what `prepare` counts as, 0 without one. From `start` on there are
    `variables`, and of them `weights` and `statistics`: lists of `tf.Variable`.
    """

    def __init__(self, folder: str | Path):
        folder = Path(folder)
        try:
            described = json.loads((folder / "built.json").read_text())
            self.settings = described["settings"]
            self.file, self.file_name = str(described["file"]), str(described["file_name"])
            self.described = [_variable(each) for each in described["variables"]]
            self._exported = {str(name): _read(folder, name, names) for name, names in described["functions"].items()}
        except OSError as error:
            raise Refused(f"{folder} holds no built submission ({error}): build it again") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(f"{folder} is no built submission, or damaged ({error!r}): build it again") from error
        check_settings(self.settings)
        self.folder = folder
        self.ghost_batch = self.settings["ghost_batch"]
        self.passes, self.prepare_samples = check(self._exported, self.described, self.ghost_batch)
        shapes = [each.shape for each in self.described if each.role == "weight"]
        self._signatures = {name: signature(name, self.ghost_batch, shapes) for name in self._exported}
        for each in self._exported.values():
            _settle(each.graph)
        self.variables: list[tf.Variable] = []

    def __contains__(self, name: str) -> bool:
        return name in self._exported

    def start(self, seed: int) -> None:
        """Give all variables the initial values of a seed; Refused, where there are none of the described shapes."""
        arrays = initial_values(self.folder / f"start-{int(seed)}.npz", self.described)
        if not self.variables:
            # Horovod tells them apart by name.
            self.variables = [
                tf.Variable(array, trainable=False, name=f"submission_{number}") for number, array in enumerate(arrays)
            ]
        pairs = list(zip(self.variables, self.described, strict=True))
        self.weights, self.statistics = ([made for made, each in pairs if each.role == role] for role in MODEL)
        for variable, array in zip(self.variables, arrays, strict=True):
            variable.assign(array)

    def hidden(self, shuffle: int = 0) -> Callable[[np.ndarray], list[np.ndarray]]:
        """Return a function from pictures, uint8 ``[500, 32, 32, 3]``, to all that the model makes of them.

        Each is float32 ``[500, n]``. With the number of a `shuffle`, the entries of every variable and constant are
        shuffled: that leaves random weights what they are.
        """
        exported, mixed = self._exported["forward_inference"], np.random.default_rng(shuffle).permutation
        graph = tf.compat.v1.GraphDef.FromString(exported.graph.SerializeToString())
        values = [variable.numpy() for variable in self.variables]
        if shuffle:
            values = [mixed(value.ravel()).reshape(value.shape) for value in values]
            for node in graph.node:
                if node.op == "Const" and (held := tf.make_ndarray(node.attr["value"].tensor)).size >= SHUFFLED:
                    other = tf.make_tensor_proto(mixed(held.ravel()).reshape(held.shape), held.dtype)
                    node.attr["value"].tensor.CopyFrom(other)
        variables = [tf.Variable(value, trainable=False) for value in values]
        count = rules.INFERENCE_BATCH

        @tf.function(autograph=False, input_signature=[tf.TensorSpec([count, 32, 32, 3], tf.uint8)])
        def give(pictures):
            given = {exported.inputs[0]: tf.cast(pictures, tf.float32) / 255}
            whole = tf.compat.v1.get_default_graph()
            given |= {tensor: whole.capture(variables[number].handle) for tensor, number in exported.variables.items()}
            tf.graph_util.import_graph_def(graph, given, name="hidden")
            nodes = [each for each in whole.get_operations() if each.name.startswith("hidden/")]
            made = [tensor for each in nodes if each.type != "Placeholder" for tensor in each.outputs]
            return [_pooled(tensor) for tensor in made if _of_pictures(tensor, count)]

        return lambda pictures: [each.numpy() for each in give(tf.constant(pictures))]

    def call(self, name: str, *inputs: tf.Tensor) -> tf.Tensor:
        """Add a function's graph to the graph that is being traced; return its output, after all that it assigns.

        Without an output it is a Boolean. Gradients of it are taken by `tf.gradients`.
        """
        exported, (takes, gives) = self._exported[name], self._signatures[name]
        if len(inputs) != len(takes):
            raise TypeError(f"{name} takes {len(takes)} inputs, not {len(inputs)}")
        graph = tf.compat.v1.get_default_graph()
        feeds = {
            tensor: tf.ensure_shape(given, spec.shape) for tensor, given, spec in zip(exported.inputs, inputs, takes)
        }
        feeds |= {tensor: graph.capture(self.variables[number].handle) for tensor, number in exported.variables.items()}
        try:
            returned = tf.graph_util.import_graph_def(
                exported.graph, feeds, [*exported.outputs, *exported.controls], name=name
            )
            outputs, controls = returned[: len(gives)], returned[len(gives) :]
            for output, spec in zip(outputs, gives, strict=True):
                if output.dtype != spec.dtype or not output.shape.is_compatible_with(spec.shape):
                    wanted = f"{spec.dtype.name} {spec.shape}"
                    raise Problem(name, f"it returns {output.dtype.name} {output.shape}, not {wanted}")
        except Refused:
            raise
        except (ValueError, TypeError, tf.errors.OpError) as error:
            raise Problem(name, f"its graph cannot be used ({str(error).splitlines()[0]}): build it again") from error
        with tf.control_dependencies(controls):
            return tf.ensure_shape(outputs[0], gives[0].shape) if gives else tf.identity(True)


def _of_pictures(tensor, count):
    shape = tensor.shape
    return tensor.dtype.is_floating and shape.is_fully_defined() and len(shape) > 1 and shape[0] == count


def _pooled(tensor):
    """Return a tensor's means over quarters of the picture, or a random projection of many numbers: float32 [n, d]."""
    tensor = tf.cast(tensor, tf.float32)
    if len(tensor.shape) == 4 and min(tensor.shape[1:3]) > 1:
        halves = [size // 2 for size in tensor.shape[1:3]]
        tensor = tf.nn.avg_pool2d(tensor, halves, halves, "VALID")
    tensor = tf.reshape(tensor, [tensor.shape[0], -1])
    if tensor.shape[1] > FEATURES:
        tensor = tf.matmul(tensor, tf.random.stateless_normal([tensor.shape[1], FEATURES], [1, 2]))
    return tensor


def failed(error: tf.errors.OpError) -> str:
    """Return in one sentence why a graph failed as it ran."""
    lines = re.sub(r"{{.*?}} ?", "", error.message).splitlines()  # TensorFlow's own names of places
    last = [line.strip() for line in lines if line.strip() and not line.startswith("\t")][-1]
    return f"a graph of the submission failed as it ran: {last[:300]}"


def initial_values(path: Path, variables: Sequence[Variable]) -> list[np.ndarray]:
    """Read initial values; no more memory is taken than the variables' own bytes."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(each.file_size for each in archive.infolist()) > sum(each.bytes + 4096 for each in variables):
                raise ValueError("it is larger than its variables")
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[f"variable_{number}"] for number in range(len(variables))]
    except FileNotFoundError as error:
        raise Refused(f"there is no {path.name} in {path.parent}: build the submission with this seed, too") from error
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise Refused(f"{path} holds no initial values ({error}): build the submission again") from error
    for array, variable in zip(arrays, variables, strict=True):
        if array.shape != variable.shape or array.dtype != tf.as_dtype(variable.dtype).as_numpy_dtype:
            raise Refused(
                f"the initial values of {variable.name!r} are {array.dtype} {list(array.shape)}, not {variable.dtype} "
                f"{list(variable.shape)}: build the submission again"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Refused(f"the initial values of {variable.name!r} are not all finite numbers")
    check_start(arrays, variables)
    return arrays


def _variable(described) -> Variable:
    shape, dtype, role = described["shape"], described["dtype"], described["role"]
    if role not in ROLES or dtype not in DTYPES or (role == "weight" and dtype != "float32"):
        raise ValueError(f"a variable of the kind {role!r} and the type {dtype!r}")
    if any(isinstance(size, bool) or not isinstance(size, int) or size < 0 for size in shape):
        raise ValueError(f"a variable of the shape {shape!r}")
    return Variable(str(described["name"])[:200], tuple(shape), dtype, role)


def _read(folder, name, names) -> Exported:
    if name not in FUNCTIONS:
        raise ValueError(f"a function {name!r}")
    path = folder / f"{name}.pb"
    try:
        graph = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    except Exception as error:  # protobuf's own class lies elsewhere in each of its implementations
        raise ValueError(f"{path.name} is no graph") from error
    inputs, outputs, controls = (tuple(map(str, names[key])) for key in ("inputs", "outputs", "controls"))
    return Exported(graph, inputs, outputs, controls, {str(key): value for key, value in names["variables"].items()})


def _settle(graph):
    """Leave neither devices nor instructions to compilers in a graph, and make its functions known by names of its own.

    TensorFlow finds functions by name in one place for the whole process, the harness's own among them. Variables keep
    their shapes: an assignment of another one fails as it runs.
    """
    digest = hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest()[:16]
    names = {each.signature.name: f"submission_{digest}_{place}" for place, each in enumerate(graph.library.function)}
    for inner in graph.library.function:
        inner.signature.name = names[inner.signature.name]
        inner.attr.clear()
    for node in [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]:
        node.device = ""
        if node.op == "AssignVariableOp":
            node.attr["validate_shape"].b = True
        for name in [name for name in node.attr if name.startswith("_") and name not in KEPT]:
            del node.attr[name]
        for value in node.attr.values():
            for each in [value.func] if value.HasField("func") else value.list.func:
                each.name = names[each.name]
    for inner in graph.library.function:
        context.context().add_function_def(inner)
