"""The process that runs a submission's Python: ``python -I -m ddl.challenge.builder``.

It reads one line of JSON (the file's text, the baseline's, the seeds), and answers with one: graphs and initial values,
or the sentence that says why there are none. It has no data, and keeps itself from files and network where the kernel
has Landlock. Its answer is trusted no more than the submission: `ddl.challenge.graphs.Program` checks it on the ranks.
"""

import ast
import base64
import contextlib
import ctypes
import difflib
import io
import json
import linecache
import os
import re
import struct
import sys
import sysconfig
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path

from ddl.challenge.rules import EVALUATIONS, GLOBAL_BATCH, TRAIN_SAMPLES, Refused
from ddl.grader.worker import Kept

__all__ = ["Submission", "main"]

PRINTED_BYTES = 16 * 1024
MESSAGE_CHARACTERS = 500
NAMES = ("SAMPLES", "GHOST_BATCH", "COMPRESSION", "PRECISION")
FUNCTIONS = ("model", "prepare", "augment", "loss", "optimizer", "schedule", "finish")
FIXED = {"GLOBAL_BATCH": GLOBAL_BATCH, "EVALUATIONS": EVALUATIONS, "TRAIN_SAMPLES": TRAIN_SAMPLES}
BASELINE = "baseline.py"
# What an error of a common kind asks for, besides what it says.
HINTS = {
    PermissionError: "a submission is built without files and network: only the harness has the data",
    FileNotFoundError: "a submission is built without files and network: only the harness has the data",
    NotImplementedError: "functions are traced to graphs: use TensorFlow's operations there, not NumPy's",
}


def main() -> None:
    """Answer the one request of standard input."""
    # What prints, the submission too, does not print into the answer.
    channel = os.dup(1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    printed = Kept(PRINTED_BYTES)
    try:
        import tensorflow  # noqa: F401  before the doors close

        confine()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            answer = Submission(request["name"], request["source"], request["baseline"]).built(request["seeds"])
    except Refused as error:
        answer = {"refused": str(error)}
    with open(channel, "wb") as file:
        file.write(json.dumps({**answer, "printed": printed.text()}).encode() + b"\n")
    sys.stdin.read()  # until the parent ends it, with the processes that the submission has started
    os._exit(0)


ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",  # a graph is the same wherever it is traced
    **dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"),
}


# ---------------------------------------------------------------- the submission


class Submission:
    """A submission's names over the baseline's, and what becomes of them."""

    def __init__(self, name: str, source: str, baseline: str):
        self.name = name if name != BASELINE or source == baseline else f"your {name}"
        self.module = types.ModuleType("submission")
        sys.modules["submission"] = self.module
        self._run(BASELINE, baseline)
        theirs = dict(vars(self.module))
        if source != baseline:
            self._run(self.name, source)
        self.own = {name for name, value in vars(self.module).items() if theirs.get(name) is not value}
        self._refuse_misspelt(theirs, source)

    def __getattr__(self, name):
        return getattr(self.module, name, None)

    def _run(self, name, source):
        # Where tracebacks, and TensorFlow's translation of Python conditions, find its lines.
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        with self.explained():
            exec(compile(source, name, "exec", dont_inherit=True), vars(self.module))

    def _refuse_misspelt(self, theirs, source):
        """Refuse what the file sets for the harness, which does not read it: a slip, or a number that is the rules'."""
        for name, value in FIXED.items():
            if getattr(self, name) not in (None, value):
                raise Refused(f"{self.name}: {name} is {getattr(self, name)!r}; the rules fix it at {value:,}")
        known = {*NAMES, *FUNCTIONS, *(name for name in theirs if name.isupper())}
        read = {
            node.id
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        for name in sorted(self.own - known - read):
            function = isinstance(getattr(self, name), types.FunctionType)
            close = difflib.get_close_matches(name, known, 1, 0.85)
            if close and (function or name.isupper()) and close[0] not in self.own:
                raise Refused(f"{self.name}: the harness does not know {name}; is {close[0]} meant? Rename it")

    @contextlib.contextmanager
    def explained(self, function: str = "") -> Iterator[None]:
        """Turn whatever the submission raises into a sentence with its line."""
        try:
            yield
        except Refused:
            raise
        except BaseException as error:
            raise Refused(self.sentence(error, function)) from None

    def sentence(self, error: BaseException, function: str = "") -> str:
        """Return what went wrong, and where in the file."""
        if isinstance(error, SyntaxError):
            return f"{self.name}, line {error.lineno}: it is no Python ({error.msg})"
        if isinstance(error, SystemExit):
            what = "it ends the process; a submission only describes a training"
        else:
            text = re.sub(r"(?s)^in user code:.*\n\s+(?=\w*(Error|Exception|Warning)\b)", "", str(error).strip())
            text = " ".join(text.split("\n\nCall arguments")[0].split())
            what = text if re.match(r"\w*(Error|Exception)\b", text) else f"{type(error).__name__}: {text}"
            what = what[:MESSAGE_CHARACTERS]
            hint = next((hint for kind, hint in HINTS.items() if isinstance(error, kind)), None)
            if hint is None and "Using a symbolic `tf.Tensor` as a Python `bool`" in text:
                hint = "write the condition with tf.where or tf.cond"
            what += f"; {hint}" if hint else ""
        file, line, within = self.place(error) or (self.name, None, function)
        within = function or within
        where = f", line {line}" if line else ""
        return f"{file}{where}{f', in {within}' if within and within != '<module>' else ''}: {what}"

    def place(self, error: BaseException) -> tuple[str, int, str] | None:
        """Return file, line and function of the innermost of the submission's frames."""
        frames = []
        trace = error.__traceback__
        while trace:
            code = trace.tb_frame.f_code
            frames.append((code.co_filename, trace.tb_lineno, code.co_name))
            trace = trace.tb_next
        # Translated functions raise from generated files, and their message names the lines.
        told = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', str(error))
        frames += [(file, int(line), name) for file, line, name in told]
        return next((frame for frame in reversed(frames) if frame[0] in (self.name, BASELINE)), None)

    # ------------------------------------------------------------ building

    def built(self, seeds: list[int]) -> dict:
        """Return the answer: settings, variables, functions, and files as base64."""
        import tensorflow as tf

        from ddl.challenge import graphs

        settings = {name.lower(): getattr(self, name) for name in NAMES}
        try:
            graphs.check_settings(settings)
        except Refused as error:
            raise Refused(f"{self.name}: {error}") from None
        for name in FUNCTIONS:
            if not callable(getattr(self, name)) and not (name in OPTIONAL and getattr(self, name) is None):
                raise Refused(f"{self.name}: {name} is {getattr(self, name)!r}: it is a function")
        bfloat16 = settings["precision"] == "bfloat16"
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16" if bfloat16 else "float32")
        _use_own_gradients()

        made = self.make(seeds[0])
        tracer = Tracer(self, made, settings["ghost_batch"])
        exported = {name: tracer.export(name, function) for name, function in self.functions(made).items() if function}
        tracer.check(exported)
        files = {f"{name}.pb": each.graph.SerializeToString(deterministic=True) for name, each in exported.items()}
        for seed in seeds:
            if seed != seeds[0]:
                made = self.make(seed)
                if made.described != tracer.made.described:
                    raise Refused(f"{self.name}: model or optimizer have other variables with another seed")
            files[f"start-{seed}.npz"] = made.initial_values()
        return {
            "settings": {
                **settings,
                "parameters": sum(_size(each) for each in made.described if each.role == "weight"),
                "prepare": "prepare" in exported,
                "finish": "finish" in exported,
            },
            "seeds": seeds,
            "variables": [vars(each) for each in made.described],
            "functions": {name: each.names() for name, each in exported.items()},
            "files": {name: base64.b64encode(content).decode() for name, content in files.items()},
        }

    def make(self, seed: int) -> "Made":
        """Make model and optimizer with a seed."""
        import tensorflow as tf

        tf.keras.backend.clear_session()
        tf.keras.utils.set_random_seed(seed)
        with self.explained("model"):
            model = self.model()
        if not isinstance(model, tf.keras.Model):
            raise Refused(f"{self.name}: model() returns {_kind(model)}: it is to return a tf.keras.Model")
        with self.explained("model"):
            if not model.built or not model.weights:
                model(tf.zeros([self.GHOST_BATCH, 32, 32, 3]), training=False)
        created = []

        def keep(make, **options):
            created.append(make(**options))
            return created[-1]

        with tf.variable_creator_scope(keep):
            with self.explained("optimizer"):
                optimizer = self.optimizer()
            kinds = (tf.keras.optimizers.Optimizer, tf.keras.optimizers.legacy.Optimizer)
            if not isinstance(optimizer, kinds):
                raise Refused(
                    f"{self.name}: optimizer() returns {_kind(optimizer)}: it is to return one of tf.keras.optimizers, "
                    "or of a class derived from one"
                )
            with self.explained("optimizer"):
                weights = model.trainable_variables
                make_slots = optimizer.build if hasattr(optimizer, "build") else optimizer._create_all_weights
                make_slots(weights)
                rate = getattr(optimizer, "_learning_rate", optimizer.learning_rate)
                if not hasattr(rate, "assign"):
                    raise Refused(
                        f"{self.name}: the optimizer's learning rate is {_kind(rate)}: give it a number, and write the "
                        "schedule as schedule(done)"
                    )
        return Made(model, optimizer, created)

    def functions(self, made: "Made") -> dict[str, Callable | None]:
        """Return what is traced, by the names of `ddl.challenge.graphs.FUNCTIONS`."""
        import tensorflow as tf

        model, optimizer, weights = made.model, made.optimizer, made.model.trainable_variables

        def forward_training(pictures):
            return tf.cast(model(pictures, training=True), tf.float32)

        def forward_inference(pictures):
            return tf.cast(model(pictures, training=False), tf.float32)

        # Translated on its own: a condition on `done` may be Python's.
        schedule = tf.function(self.schedule)

        def update(*inputs):
            *gradients, done = inputs
            with self.explained("schedule"):
                rate = tf.cast(tf.convert_to_tensor(schedule(done)), tf.float32)
                if rate.shape.rank != 0:
                    raise Refused(f"{self.name}: schedule returns {_kind(rate)}: it is to return one number")
            optimizer.learning_rate.assign(rate)
            optimizer.apply_gradients(zip(gradients, weights, strict=True))

        def prepare(pictures):
            self.prepare(model, pictures)

        def finish():
            self.finish(model, optimizer)

        return {
            "augment": self.augment,
            "forward_training": forward_training,
            "loss": self.loss,
            "update": update,
            "forward_inference": forward_inference,
            "prepare": prepare if self.prepare else None,
            "finish": finish if self.finish else None,
        }


OPTIONAL = ("prepare", "finish")


class Made:
    """A model and an optimizer of one seed, and their variables in order: the model's, then the optimizer's."""

    def __init__(self, model, optimizer, created):
        from ddl.challenge import graphs

        self.model, self.optimizer = model, optimizer
        weights, others = model.trainable_variables, model.non_trainable_variables
        known = {id(variable) for variable in (*weights, *others)}
        # The optimizer's own list does not name everything that it keeps, such as its rate.
        unique = {
            id(variable): variable for variable in (*created, *_variables(optimizer)) if id(variable) not in known
        }
        self.state = list(unique.values())
        roles = {"weight": weights, "statistic": others, "state": self.state}
        self.variables, self.described = [], []
        for role, variables in roles.items():
            for variable in map(_plain, variables):
                self.variables.append(variable)
                shape, dtype = tuple(variable.shape.as_list()), variable.dtype.base_dtype.name
                if dtype not in graphs.DTYPES:
                    raise Refused(f"model: {variable.name!r} is {dtype}: variables are {', '.join(graphs.DTYPES)}")
                self.described.append(graphs.Variable(variable.name, shape, dtype, role))

    def initial_values(self) -> bytes:
        """Return the values of all variables as the bytes of an npz file."""
        import numpy as np

        file = io.BytesIO()
        arrays = {f"variable_{number}": variable.numpy() for number, variable in enumerate(self.variables)}
        np.savez_compressed(file, **arrays)
        return file.getvalue()


class Tracer:
    """Traces functions to graphs whose variables have numbers."""

    def __init__(self, submission: Submission, made: Made, ghost_batch: int):
        self.submission, self.made, self.ghost_batch = submission, made, ghost_batch
        self.traced = {}

    def export(self, name: str, function: Callable):
        """Trace a function, check what it returns, and return a `graphs.Exported`."""
        import tensorflow as tf

        from ddl.challenge import graphs

        shapes = [each.shape for each in self.made.described if each.role == "weight"]
        takes, gives = graphs.signature(name, self.ghost_batch, shapes)
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
                    f"iterator of tf.data: {graphs.DATA_ADVICE}"
                )
        self.traced[name] = traced
        captured = {inner.name for _, inner in traced.graph.captures}
        return graphs.Exported(
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
            line = getattr(
                getattr(getattr(self.submission, called.split(",")[0]), "__code__", None), "co_firstlineno", 0
            )
            file = getattr(getattr(getattr(self.submission, called.split(",")[0]), "__code__", None), "co_filename", "")
            where = (
                f"{file}, line {line}" if line and file in (self.submission.name, BASELINE) else self.submission.name
            )
            raise Refused(
                f"{where}: {called} returns {_kind(given)} for {self.ghost_batch} pictures: it is to return "
                f"{spec.dtype.name} {list(spec.shape)}"
            )

    def check(self, exported) -> None:
        """Check the graphs as the ranks will, and say in which line of the file a problem is."""
        from ddl.challenge import graphs

        try:
            graphs.check(exported, self.made.described, self.ghost_batch)
        except graphs.Problem as problem:
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
        lines = [frame.lineno for frame in frames if frame.filename == self.submission.name]
        return lines[-1] if lines else None


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


def _variables(optimizer):
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def _plain(variable):
    """Return the variable itself: mixed precision wraps those of layers."""
    return getattr(variable, "_variable", variable)


def _size(described):
    import math

    return math.prod(described.shape)


def _kind(value):
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype.name} {value.shape}"
    return f"a {type(value).__name__}"


def _use_own_gradients():
    """Let SiLU be x·sigmoid(x): TensorFlow's own has a gradient in Python, to save memory, that no graph can hold."""
    import tensorflow as tf

    def silu(features, beta=1.0):
        return features * tf.sigmoid(tf.cast(beta, features.dtype) * features)

    for module in (tf.nn, tf.compat.v2.nn, tf.compat.v1.nn):
        module.silu = module.swish = silu


# ---------------------------------------------------------------- confinement

# Landlock, by the kernel's documentation: system calls on all architectures, and rights by version of the interface.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
READ_FILE, READ_DIR, EXECUTE = 1 << 2, 1 << 3, 1 << 0
RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
NETWORK = 0b11  # bind and connect, from version 4
SCOPED = 0b11  # abstract sockets and signals, from version 6
PR_SET_NO_NEW_PRIVS = 38
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system", "/proc/self")
SINGLE = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/dev/urandom", "/dev/random", "/dev/zero")


def confine() -> bool:
    """Keep this process, from now on, from all files but Python's own, and from TCP; return whether the kernel can."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    handled = sum(rights for first, rights in RIGHTS.items() if version >= first)
    attributes = struct.pack("=QQQ", handled, NETWORK if version >= 4 else 0, SCOPED if version >= 6 else 0)
    attributes = attributes[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules_of = libc.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    if rules_of < 0:
        return False
    reading = READ_FILE | READ_DIR | EXECUTE
    package = Path(__file__).resolve().parents[2]
    python = {sys.prefix, sys.base_prefix, str(package), *sysconfig.get_paths().values()}
    allowed = {os.path.realpath(path): reading for path in (*SYSTEM, *python)}
    allowed |= dict.fromkeys(SINGLE, READ_FILE)
    allowed |= {"/dev/null": READ_FILE | 1 << 1, os.path.realpath(tempfile.gettempdir()): handled & ~EXECUTE}
    for path, rights in allowed.items():
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            if not os.path.isdir(path):
                rights &= READ_FILE | EXECUTE | 1 << 1
            libc.syscall(ADD_RULE, rules_of, 1, struct.pack("=Qi", rights & handled, descriptor), 0)
            os.close(descriptor)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return libc.syscall(RESTRICT_SELF, rules_of, 0) == 0


if __name__ == "__main__":
    main()
