"""From a submission's functions to graphs: the model and optimizer of a seed, and what is traced of them."""

import io
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from course.challenge import checks, functions
from course.challenge.operations import DATA_ADVICE
from course.challenge.rules import Refused

BASELINE = "baseline.py"


class Made:
    """A model and an optimizer of one seed, and their variables in order: the model's, then the optimizer's."""

    def __init__(self, model, optimizer, created):
        self.model, self.optimizer = model, optimizer
        weights, others = model.trainable_variables, model.non_trainable_variables
        known = {id(variable) for variable in (*weights, *others)}
        # The optimizer's own list does not name everything that it keeps, such as its rate.
        kept = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
        self.state = list({id(each): each for each in (*created, *kept) if id(each) not in known}.values())
        roles = {"weight": weights, "statistic": others, "state": self.state}
        self.variables, self.described = [], []
        for role, variables in roles.items():
            for variable in variables:
                variable = getattr(variable, "_variable", variable)  # mixed precision wraps those of layers
                self.variables.append(variable)
                shape, dtype = tuple(variable.shape.as_list()), variable.dtype.base_dtype.name
                if dtype not in functions.DTYPES:
                    raise Refused(f"model: {variable.name!r} is {dtype}: variables are {', '.join(functions.DTYPES)}")
                self.described.append(functions.Variable(variable.name, shape, dtype, role))

    def initial_values(self) -> bytes:
        """Return the values of all variables as the bytes of an npz file."""
        file = io.BytesIO()
        arrays = {f"variable_{number}": variable.numpy() for number, variable in enumerate(self.variables)}
        np.savez_compressed(file, **arrays)
        return file.getvalue()


class Tracer:
    """Traces functions to graphs whose variables have numbers."""

    def __init__(self, submission, made: Made, ghost_batch: int):
        self.submission, self.made, self.ghost_batch = submission, made, ghost_batch
        self.traced = {}

    def export(self, name: str, function: Callable):
        """Trace a function, check what it returns, and return a `functions.Exported`."""
        shapes = [each.shape for each in self.made.described if each.role == "weight"]
        takes, gives = functions.signature(name, self.ghost_batch, shapes)
        translate = name in ("augment", "loss", "prepare", "finish")
        with self.submission.explained("" if name in SHARED else name):
            traced = tf.function(function, autograph=translate).get_concrete_function(*takes)
        self._check_outputs(name, traced, gives)
        graph = traced.graph.as_graph_def()
        nodes = {node.name: node for node in graph.node}
        numbers = {id(variable.handle): number for number, variable in enumerate(self.made.variables)}
        variables = {}
        for outer, inner in traced.graph.captures:
            if outer.dtype == tf.resource:
                if id(outer) not in numbers:
                    raise Refused(
                        f"{self.submission.name}, in {name}: it uses a variable or a table that is neither the model's "
                        "nor the optimizer's: make it in model() or optimizer()"
                    )
                variables[inner.name] = numbers[id(outer)]
            elif not hasattr(outer, "numpy"):
                raise Refused(
                    f"{self.submission.name}, in {name}: it uses a tensor of another function ({outer.name}): only "
                    "what it is given counts there"
                )
            elif outer.dtype.is_numpy_compatible and outer.dtype != tf.string:
                node = nodes[inner.op.name]
                node.Clear()
                node.name, node.op = inner.op.name, "Const"
                node.attr["dtype"].type = outer.dtype.as_datatype_enum
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(outer.numpy()))
            else:
                raise Refused(
                    f"{self.submission.name}, in {name}: it uses a {outer.dtype.name} made outside of it, such as an "
                    f"iterator of tf.data: {DATA_ADVICE}"
                )
        self.traced[name] = traced
        captured = {inner.name for _, inner in traced.graph.captures}
        return functions.Exported(
            graph,
            tuple(tensor.name for tensor in traced.inputs if tensor.name not in captured),
            tuple(tensor.name for tensor in traced.outputs) if gives else (),
            tuple(operation.name for operation in traced.graph.control_outputs),
            variables,
        )

    def _check_outputs(self, name, traced, gives):
        if not gives:
            return
        (spec,) = gives
        given = traced.structured_outputs
        if getattr(given, "dtype", None) != spec.dtype or not spec.shape.is_compatible_with(given.shape):
            called = {"forward_training": "model", "forward_inference": "model, when it does not train"}.get(name, name)
            where = self.submission.name
            code = getattr(getattr(self.submission, SHARED.get(name, name)), "__code__", None)
            if code and code.co_filename in (self.submission.name, BASELINE):
                where = f"{code.co_filename}, line {code.co_firstlineno}"
            raise Refused(
                f"{where}: {called} returns {kind_of(given)} for {self.ghost_batch} images: it should return "
                f"{spec.dtype.name} {list(spec.shape)}"
            )

    def check(self, exported):
        """Check the graphs as the ranks will, and return what they count as, or say which line has a problem."""
        try:
            return checks.check(exported, self.made.described, self.ghost_batch)
        except functions.Problem as problem:
            line = self._line(problem)
            where = f", line {line}" if line else ""
            within = SHARED.get(problem.function, problem.function)
            raise Refused(f"{self.submission.name}{where}, in {within}: {problem.what}") from None
        except Refused as error:
            raise Refused(f"{self.submission.name}: {error}") from None

    def _line(self, problem):
        """Return the line of the file that made a node, as far as TensorFlow knows."""
        graph = self.traced[problem.function].graph
        if problem.inner:
            graph = _inner_graph(graph, problem.inner)
        try:
            frames = graph.get_operation_by_name(problem.node).traceback
        except (AttributeError, KeyError, ValueError):
            return None
        return next((frame.lineno for frame in reversed(frames) if frame.filename == self.submission.name), None)


# What a submission calls the functions that the builder puts together.
SHARED = {"forward_training": "model", "forward_inference": "model", "update": "optimizer"}


def _inner_graph(graph, name):
    """Return the FuncGraph of a function that a graph calls, at any depth; None where TensorFlow has not kept it."""
    for key, function in getattr(graph, "_functions", {}).items():
        inner = getattr(function, "graph", None)
        if (key.decode() if isinstance(key, bytes) else key) == name:
            return inner
        if inner is not None and (found := _inner_graph(inner, name)) is not None:
            return found
    return None


def kind_of(value):
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype.name} {value.shape}"
    return f"a {type(value).__name__}"
