"""A submission's file in the builder: its names over the baseline's, and the graphs that become of them."""

import ast
import base64
import contextlib
import difflib
import linecache
import math
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from course.challenge import checks
from course.challenge.rules import EVALUATIONS, GLOBAL_BATCH, TRAIN_SAMPLES, Refused
from course.challenge.tracing import BASELINE, Made, Tracer, kind_of

MESSAGE_CHARACTERS = 500
NAMES = ("SAMPLES", "GHOST_BATCH", "COMPRESSION", "PRECISION")
FUNCTIONS = ("model", "prepare", "augment", "loss", "optimizer", "schedule", "finish")
FIXED = {"GLOBAL_BATCH": GLOBAL_BATCH, "EVALUATIONS": EVALUATIONS, "TRAIN_SAMPLES": TRAIN_SAMPLES}
# What an error of a common kind asks for, besides what it says.
HINTS = {
    (PermissionError, FileNotFoundError): (
        "a submission is built without files and network: only the harness has the data"
    ),
    NotImplementedError: "functions are traced to graphs: use TensorFlow's operations there, not NumPy's",
}


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
        self.changed = {name for name, value in vars(self.module).items() if theirs.get(name) is not value}
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
        names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
        read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        for name in sorted(self.changed - known - read):
            function = isinstance(getattr(self, name), types.FunctionType)
            close = difflib.get_close_matches(name, known, 1, 0.85)
            if close and (function or name.isupper()) and close[0] not in self.changed:
                raise Refused(f"{self.name}: no setting or function is called {name}: did you mean {close[0]}?")

    @contextlib.contextmanager
    def explained(self, function: str = "") -> Iterator[None]:
        """Turn whatever the submission raises into a sentence with its line."""
        try:
            yield
        except Refused:
            raise
        except BaseException as error:
            raise Refused(self.sentence(error, function)) from None

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Put the file's name before what is wrong with it."""
        try:
            yield
        except Refused as error:
            raise Refused(f"{self.name}: {error}") from None

    def sentence(self, error: BaseException, function: str = "") -> str:
        """Return what went wrong, and where in the file."""
        if isinstance(error, SyntaxError):
            return f"{self.name}, line {error.lineno}: this is not Python ({error.msg})"
        if isinstance(error, SystemExit):
            what = "it ends the process; a submission only describes a training"
        else:
            text = re.sub(r"(?s)^in user code:.*\n\s+(?=\w*(Error|Exception|Warning)\b)", "", str(error).strip())
            text = " ".join(text.split("\n\nCall arguments")[0].split())
            what = text if re.match(r"\w*(Error|Exception)\b", text) else f"{type(error).__name__}: {text}"
            hint = next((f"; {hint}" for kinds, hint in HINTS.items() if isinstance(error, kinds)), "")
            if not hint and "Using a symbolic `tf.Tensor` as a Python `bool`" in text:
                hint = "; write the condition with tf.where or tf.cond"
            what = what[:MESSAGE_CHARACTERS] + hint
        file, line, frame = _innermost(error, (self.name, BASELINE)) or (self.name, None, function)
        within = function or frame
        where = f", line {line}" if line else ""
        return f"{file}{where}{f', in {within}' if within and within != '<module>' else ''}: {what}"

    def built(self, seeds: list[int]) -> dict:
        """Return the answer: settings, variables, functions, and files as base64."""
        settings = {name.lower(): getattr(self, name) for name in NAMES}
        with self.named():
            checks.check_settings(settings)
        for name in FUNCTIONS:
            if not callable(getattr(self, name)) and not (name in OPTIONAL and getattr(self, name) is None):
                raise Refused(f"{self.name}: {name} is {getattr(self, name)!r}: it must be a function")
        bfloat16 = settings["precision"] == "bfloat16"
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16" if bfloat16 else "float32")
        _use_own_gradients()

        made = self.make(seeds[0])
        tracer = Tracer(self, made, settings["ghost_batch"])
        exported = {name: tracer.export(name, function) for name, function in self.functions(made).items() if function}
        passes, prepare_samples = tracer.check(exported)
        files = {f"{name}.pb": each.graph.SerializeToString(deterministic=True) for name, each in exported.items()}
        for seed in seeds:
            if seed != seeds[0]:
                made = self.make(seed)
                if made.described != tracer.made.described:
                    raise Refused(f"{self.name}: model or optimizer has other variables with another seed")
            with self.named():
                checks.check_start([variable.numpy() for variable in made.variables], made.described)
            files[f"start-{seed}.npz"] = made.initial_values()
        return {
            "settings": {
                **settings,
                "parameters": sum(math.prod(each.shape) for each in made.described if each.role == "weight"),
                "prepare": "prepare" in exported,
                "finish": "finish" in exported,
                "passes": passes,
                "prepare_samples": prepare_samples,
            },
            "seeds": seeds,
            "variables": [vars(each) for each in made.described],
            "functions": {name: each.names() for name, each in exported.items()},
            "files": {name: base64.b64encode(content).decode() for name, content in files.items()},
        }

    def make(self, seed: int) -> "Made":
        """Make model and optimizer with a seed."""
        tf.keras.backend.clear_session()
        tf.keras.utils.set_random_seed(seed)
        with self.explained("model"):
            model = self.model()
            if not isinstance(model, tf.keras.Model):
                raise Refused(f"{self.name}: model() returns {kind_of(model)}: it should return a tf.keras.Model")
            if not model.built or not model.weights:
                model(tf.zeros([self.GHOST_BATCH, 32, 32, 3]), training=False)
        created = []

        def keep(make, **options):
            created.append(make(**options))
            return created[-1]

        with tf.variable_creator_scope(keep), self.explained("optimizer"):
            optimizer = self.optimizer()
            if not isinstance(optimizer, (tf.keras.optimizers.Optimizer, tf.keras.optimizers.legacy.Optimizer)):
                raise Refused(
                    f"{self.name}: optimizer() returns {kind_of(optimizer)}: it should return one of "
                    "tf.keras.optimizers, or of a class derived from one"
                )
            make_slots = optimizer.build if hasattr(optimizer, "build") else optimizer._create_all_weights
            make_slots(model.trainable_variables)
            rate = getattr(optimizer, "_learning_rate", optimizer.learning_rate)
            if not hasattr(rate, "assign"):
                raise Refused(
                    f"{self.name}: the optimizer's learning rate is {kind_of(rate)}: give it a number, and write "
                    "the schedule as schedule(done)"
                )
        return Made(model, optimizer, created)

    def functions(self, made: "Made") -> dict[str, Callable | None]:
        """Return what is traced, by the names of `course.challenge.functions.FUNCTIONS`."""
        model, optimizer, weights = made.model, made.optimizer, made.model.trainable_variables

        def forward(training):
            return lambda pictures: tf.cast(model(pictures, training=training), tf.float32)

        # Translated on its own: a condition on `done` may be Python's.
        schedule = tf.function(self.schedule)

        def update(*inputs):
            *gradients, done = inputs
            with self.explained("schedule"):
                rate = tf.cast(tf.convert_to_tensor(schedule(done)), tf.float32)
                if rate.shape.rank != 0:
                    raise Refused(f"{self.name}: schedule returns {kind_of(rate)}: it should return one number")
            optimizer.learning_rate.assign(rate)
            optimizer.apply_gradients(zip(gradients, weights, strict=True))

        def prepare(pictures):
            self.prepare(model, pictures)

        def finish():
            self.finish(model, optimizer)

        return {
            "augment": self.augment,
            "forward_training": forward(True),
            "loss": self.loss,
            "update": update,
            "forward_inference": forward(False),
            "prepare": prepare if self.prepare else None,
            "finish": finish if self.finish else None,
        }


OPTIONAL = ("prepare", "finish")


def _innermost(error: BaseException, files: Sequence[str]) -> tuple[str, int, str] | None:
    """Return file, line and function of the innermost frame that stands in one of these files."""
    frames = [(each.filename, each.lineno, each.name) for each in traceback.extract_tb(error.__traceback__)]
    # Translated functions raise from generated files, and their message names the lines.
    generated = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', str(error))
    frames += [(file, int(line), name) for file, line, name in generated]
    return next((frame for frame in reversed(frames) if frame[0] in files), None)


def _use_own_gradients():
    """Let SiLU be x·sigmoid(x): TensorFlow's own has a gradient in Python, to save memory, that no graph can hold."""

    def silu(features, beta=1.0):
        return features * tf.sigmoid(tf.cast(beta, features.dtype) * features)

    for module in (tf.nn, tf.compat.v2.nn, tf.compat.v1.nn):
        module.silu = module.swish = silu
