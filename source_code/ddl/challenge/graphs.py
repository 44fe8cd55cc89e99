"""A submission as TensorFlow graphs: what they may do, and how a rank calls them.

A submission's Python runs in the builder alone. What reaches a rank is data: one GraphDef for each of `FUNCTIONS`,
initial values, and a description. `Program` checks all of it before the first graph is imported, and again needs no
trust in who made it: an operation that is not listed here is refused, wherever it stands, and so is an assignment to a
variable that its function may not change.
"""

import hashlib
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context  # no public name leads to a process's functions

from ddl.challenge import rules
from ddl.challenge.arithmetic import Uncounted, per_picture
from ddl.challenge.rules import Refused

__all__ = ["FUNCTIONS", "Exported", "Function", "Problem", "Program", "Variable", "check", "failed", "signature"]

ROLES = ("weight", "statistic", "state")  # trainable, the model's others, the optimizer's


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


# ---------------------------------------------------------------- what is allowed

ARITHMETIC = """
Abs Acos Acosh Add AddN AddV2 All Any ApproximateEqual ArgMax ArgMin Asin Asinh Atan Atan2 Atanh BatchMatMul
BatchMatMulV2 BatchMatMulV3 BatchToSpaceND BiasAdd Bitcast BitwiseAnd BitwiseOr BitwiseXor BroadcastArgs
BroadcastGradientArgs BroadcastTo Cast Ceil CheckNumerics ClipByValue Concat ConcatV2 Const Cos Cosh Cross Cumprod
Cumsum CumulativeLogsumexp DepthToSpace Diag DiagPart Digamma Div DivNoNan Einsum Elu EnsureShape Equal Erf Erfc Erfinv
Exp ExpandDims Expm1 Fill Floor FloorDiv FloorMod Gather GatherNd GatherV2 Greater GreaterEqual Identity IdentityN Inv
Invert InvertPermutation IsFinite IsInf IsNan L2Loss LRN LeakyRelu LeftShift Less LessEqual Lgamma LinSpace Log Log1p
LogSoftmax LogicalAnd LogicalNot LogicalOr MatMul MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2
MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Max Maximum Mean Min Minimum
MirrorPad Mod Mul MulNoNan Neg NoOp NotEqual OneHot OnesLike Pack Pad PadV2 Placeholder Pow PreventGradient Prod Range
Rank RealDiv Reciprocal Relu Relu6 Reshape Reverse ReverseSequence ReverseV2 RightShift Rint Roll Round Rsqrt ScatterNd
SegmentMean SegmentSum Select SelectV2 Selu Shape ShapeN Sigmoid Sign Sin Sinh Size Slice Softmax
SoftmaxCrossEntropyWithLogits Softplus Softsign SpaceToBatchND SpaceToDepth SparseSoftmaxCrossEntropyWithLogits Split
SplitV Sqrt Square SquaredDifference Squeeze StopGradient StridedSlice Sub Sum Tan Tanh TensorScatterAdd
TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate Tile TopK TopKV2 Transpose TruncateDiv
TruncateMod Unpack UnsortedSegmentMax UnsortedSegmentSum Where Xdivy Xlog1py Xlogy ZerosLike
Cholesky LogMatrixDeterminant MatrixDeterminant MatrixInverse MatrixSolve MatrixSolveLs MatrixSquareRoot
MatrixTriangularSolve Qr SelfAdjointEigV2 Svd
Assert EmptyTensorList TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength
TensorListPopBack TensorListPushBack TensorListReserve TensorListResize TensorListSetItem TensorListStack
StatelessMultinomial StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomGetAlg
StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2
StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessSampleDistortedBoundingBox StatelessShuffle
StatelessTruncatedNormal StatelessTruncatedNormalV2
"""
NETWORKS = """
AvgPool Conv2D DepthwiseConv2dNative Dilation2D ExtractImagePatches FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3
MaxPool MaxPoolV2
AdjustContrastv2 AdjustHue AdjustSaturation CropAndResize HSVToRGB ImageProjectiveTransformV2
ImageProjectiveTransformV3 RGBToHSV ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ScaleAndTranslate
"""
ARITHMETIC, NETWORKS = frozenset(ARITHMETIC.split()), frozenset(NETWORKS.split())
READS = frozenset("ReadVariableOp ResourceGather ResourceGatherNd VariableShape".split())
ASSIGNS = frozenset(
    """
AssignAddVariableOp AssignSubVariableOp AssignVariableOp ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad
ResourceApplyAdagradV2 ResourceApplyAdam ResourceApplyAdamWithAmsgrad ResourceApplyCenteredRMSProp ResourceApplyFtrl
ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyRMSProp
ResourceScatterAdd ResourceScatterSub ResourceScatterUpdate
""".split()
)
# What runs functions of the library, with the place of the first input that becomes the functions' first argument.
CALLS = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile"), 0),
    **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), 1),
}
LOOPS = ("While", "StatelessWhile")
# The attributes beginning with _ that graphs keep: the others name devices, compilers, and gradients in Python.
KEPT = ("_lower_using_switch_merge", "_num_original_outputs", "_stateful_parallelism")

# What to do instead, by the beginning of an operation's name.
ADVICE = {
    ("PyFunc", "EagerPyFunc"): "it would start Python on the ranks: write it in TensorFlow's operations",
    ("Random", "Multinomial", "ParameterizedTruncatedNormal", "TruncatedNormal", "StatefulRandom", "Stateful", "Rng"): (
        "its random numbers cannot be repeated: draw them in `augment` with tf.random.stateless_uniform(shape, key) "
        "and its like; Dropout layers and Keras's augmentation layers draw such numbers, too"
    ),
    ("ReadFile", "MatchingFiles", "WriteFile", "Restore", "Save", "Decode", "WholeFileReader"): (
        "it works with files: only the harness reads the data"
    ),
    ("Print", "StringFormat"): "it prints or writes files: look at values before you hand them over",
    ("VarHandle", "Variable", "Queue", "Stack", "Barrier", "MutableHash", "HashTable", "Table"): (
        "it would keep values of its own between steps: use the model's and the optimizer's variables"
    ),
    ("Conv", "MaxPoolGrad", "AvgPoolGrad", "FusedBatchNormGrad", "ReluGrad"): (
        "no gradient is taken but the harness's own, and no network runs between gradients and weights"
    ),
    ("SymbolicGradient",): "no gradient is taken but the harness's own",
}
OTHER_ADVICE = "it is not among those that ranks carry out: write it with others (`ddl challenge rules`)"
DATA_ADVICE = "a pipeline of data would run beside the harness's: take the pictures that the function is given"


def advice(op: str) -> str:
    """Return what to do instead of an operation that is refused."""
    if "Dataset" in op or "Iterator" in op:
        return DATA_ADVICE
    return next((text for starts, text in ADVICE.items() if op.startswith(starts)), OTHER_ADVICE)


class Problem(Refused):
    """A graph that breaks a rule: in which of `FUNCTIONS`, at which node of which function of its library."""

    def __init__(self, function: str, what: str, node: str = "", inner: str = ""):
        super().__init__(f"{function}: {what}")
        self.function, self.what, self.node, self.inner = function, what, node, inner


# ---------------------------------------------------------------- what is checked


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
        return {
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "controls": list(self.controls),
            "variables": dict(self.variables),
        }


def check(exported: Mapping[str, Exported], variables: Sequence[Variable], ghost_batch: int) -> dict[str, list[int]]:
    """Check graphs and variables against the rules; return which variables each function assigns.

    Raises
    ------
    Problem
    Refused
    """
    for name in FUNCTIONS:
        if name not in exported and not FUNCTIONS[name].optional:
            raise Refused(f"{name} is missing: build the submission again")
    if unknown := set(exported) - set(FUNCTIONS):
        raise Refused(f"{', '.join(sorted(unknown))}: no such function takes part in a training")
    if sum(each.graph.ByteSize() for each in exported.values()) > rules.GRAPH_BYTES:
        raise Refused(
            f"the graphs take more than {rules.GRAPH_BYTES / 2**20:.0f} MiB: a Python loop may have written the same "
            "operations many times; use tf.while_loop"
        )
    constants, assigned = 0, {}
    for name, each in exported.items():
        walk = _Walk(FUNCTIONS[name], each, variables)
        walk.run()
        constants += walk.constant_bytes
        if constants > rules.CONSTANT_BYTES:
            raise Problem(
                name,
                f"constants in the graphs take more than {rules.CONSTANT_BYTES // 1024} KiB: compute them from fewer "
                "numbers, or keep them in a variable of the model that its initializer fills",
                walk.largest,
            )
        assigned[name] = sorted(walk.assigned)
    _check_sizes(variables, assigned["forward_training"])
    _check_views(exported, variables, ghost_batch)
    return assigned


def _check_views(exported, variables, ghost_batch):
    """Check that evaluations take no more arithmetic than training's forward pass: there is one view of a picture."""
    shapes = [each.shape for each in variables if each.role == "weight"]

    def arithmetic(name, strict):
        each = exported[name]
        takes, _ = signature(name, ghost_batch, shapes)
        return per_picture(
            each.graph,
            dict(zip(each.inputs, takes, strict=True)),
            {
                tensor: tf.TensorSpec(variables[number].shape, variables[number].dtype)
                for tensor, number in each.variables.items()
            },
            [*each.outputs, *each.controls],
            strict,
        )

    name = "forward_inference"
    try:
        most, taken = (arithmetic(each, each == name) for each in ("forward_training", name))
    except Uncounted as error:
        raise Problem(
            name,
            f"the arithmetic of {error.node!r} in evaluations cannot be counted, as {error.why}: write the model "
            "without tf.function, conditions and loops of the graph where training=False",
            error.node,
        ) from None
    except (ValueError, TypeError, KeyError, tf.errors.OpError) as error:
        raise Problem(name, f"its graph cannot be read ({str(error).splitlines()[0]}): build it again") from error
    if taken > rules.MOST_ARITHMETIC * most:
        raise Problem(
            name,
            f"evaluations take {taken:,.0f} operations for a picture, and training's forward pass {most:,.0f}: several "
            "views of a picture do not count (conditions and loops in training count nothing)",
        )


def _check_sizes(variables, assigned):
    """Check how many bytes variables take; `assigned` are the numbers of those that the forward pass changes."""
    taken = {role: sum(each.bytes for each in variables if each.role == role) for role in ROLES}
    statistics = sum(variables[number].bytes for number in assigned)
    state = rules.STATE_BYTES + 4 * taken["weight"]

    def mib(count):
        return f"{count / 2**20:,.2f} MiB"

    if not taken["weight"]:
        raise Refused("model: it has no trainable weights, so there is nothing to train")
    if taken["weight"] + taken["statistic"] > rules.MODEL_BYTES:
        raise Refused(
            f"model: its variables take {mib(taken['weight'] + taken['statistic'])}, and {mib(rules.MODEL_BYTES)} is "
            "the most: make it smaller"
        )
    if statistics > rules.STATISTICS_BYTES:
        raise Refused(
            f"forward_training: the variables that it assigns take {mib(statistics)}, and {mib(rules.STATISTICS_BYTES)}"
            " is the most: keep statistics of pictures there, not the pictures"
        )
    if taken["state"] > state:
        raise Refused(
            f"optimizer: its variables take {mib(taken['state'])}, and four times the weights and 1 MiB, {mib(state)}, "
            "are the most"
        )


class _Walk:
    """Goes through a graph and the functions that it calls, following each variable to where it is used."""

    def __init__(self, function: Function, exported: Exported, variables: Sequence[Variable]):
        self.function, self.exported, self.variables = function, exported, variables
        self.library = {each.signature.name: each for each in exported.graph.library.function}
        self.constant_bytes, self.largest, self._most = 0, "", 0
        self.assigned: set[int] = set()
        self._seen: set[tuple] = set()
        self._inner = ""
        self._allowed = ARITHMETIC | READS | ASSIGNS | CALLS.keys() | (NETWORKS if function.learns else frozenset())

    def run(self):
        graph, fed = self.exported.graph, {name.partition(":")[0] for name in self.exported.inputs}
        if graph.library.gradient or graph.library.registered_gradients:
            self._refuse("it brings a gradient of its own (tf.custom_gradient), which the harness does not follow")
        if len(self.library) < len(graph.library.function):
            self._refuse("two functions in its graph have one name: build the submission again")
        resources = {}
        for name, number in self.exported.variables.items():
            if not isinstance(number, int) or not 0 <= number < len(self.variables):
                self._refuse("its graph names a variable that does not exist: build the submission again")
            resources[name.partition(":")[0]] = number
        for node in graph.node:
            if node.op == "Placeholder" and node.name not in fed | resources.keys():
                self._refuse(f"nothing is given to its input {node.name!r}: build the submission again", node)
        for node in graph.node:
            self._node(node)
        for name, inner in self.library.items():  # also what nothing calls
            self._inner = name
            for node in inner.node_def:
                self._node(node)
        self._inner = ""
        self._nodes(graph.node, resources)

    def _nodes(self, nodes, resources):
        resources = dict(resources)
        for node in nodes:
            if node.op == "Identity" and (number := self._resource(node.input[0], resources)) is not None:
                resources[node.name] = number
        for node in nodes:
            held = [self._resource(name, resources) for name in node.input if not name.startswith("^")]
            if node.op in CALLS:
                self._call(node, held)
            elif node.op in READS | ASSIGNS:
                if not held or held[0] is None:
                    self._refuse(f"{node.op} at {node.name!r} uses a variable that is not the submission's", node)
                for number in filter(lambda number: number is not None, held):
                    self._touch(node, number, node.op in ASSIGNS)
            elif node.op not in ("Identity", "NoOp") and any(number is not None for number in held):
                self._refuse(f"{node.op} at {node.name!r} takes a variable itself, not its value", node)
        return resources

    @staticmethod
    def _resource(name, resources):
        return resources.get(name.partition(":")[0])

    def _node(self, node):
        """Check what a node is, wherever it stands; count its constants."""
        if node.op not in self._allowed:
            self._refuse(f"the operation {node.op} (at {node.name!r}) is refused: {advice(node.op)}", node)
        if "_gradient_op_type" in node.attr and node.op not in CALLS and self.function.differentiated:
            self._refuse(
                f"{node.name!r} has a gradient of its own (tf.custom_gradient), which the harness does not follow: "
                "write it with operations whose own gradients are right, or tf.stop_gradient",
                node,
            )
        for name, value in node.attr.items():
            if value.HasField("tensor"):
                if node.op != "Const":
                    self._refuse(f"{node.op} at {node.name!r} carries data in {name!r}", node)
                size = value.tensor.ByteSize()
                self.constant_bytes += size
                if size > self._most:
                    self._most, self.largest = size, node.name
            called = [value.func, *value.list.func] if value.HasField("func") or value.list.func else []
            for each in called:
                if node.op not in CALLS or each.name not in self.library:
                    self._refuse(f"{node.op} at {node.name!r} calls {each.name!r}, which is not in its graph", node)

    def _call(self, node, held):
        first = CALLS[node.op]
        values = [value for value in node.attr.values() if value.HasField("func") or value.list.func]
        names = [
            each.name for value in values for each in ([value.func] if value.HasField("func") else value.list.func)
        ]
        for name in names:
            inner = self.library[name]
            arguments = [argument.name for argument in inner.signature.input_arg]
            resources = {
                argument: number
                for argument, number in zip(arguments, held[first:], strict=False)
                if number is not None
            }
            state = (name, tuple(sorted(resources.items())))
            if state in self._seen:
                continue
            self._seen.add(state)
            outer, self._inner = self._inner, name
            known = self._nodes(inner.node_def, resources)
            if node.op in LOOPS and len(inner.signature.output_arg) == len(arguments):  # the body, not the condition
                for argument, output in zip(arguments, inner.signature.output_arg, strict=True):
                    back = self._resource(inner.ret[output.name], known)
                    if argument in resources and back != resources[argument]:
                        self._refuse(f"the loop at {node.name!r} takes another variable in each of its rounds", node)
            self._inner = outer

    def _touch(self, node, number, assigns):
        variable = self.variables[number]
        allowed = self.function.assigns if assigns else self.function.reads
        if variable.role in allowed:
            if assigns:
                self.assigned.add(number)
            return
        kind = {
            "weight": "a trainable weight",
            "statistic": "a variable of the model",
            "state": "the optimizer's state",
        }
        may = {
            "augment": "only the pictures that it is given count there",
            "loss": "only logits and labels count there",
            "forward_inference": "evaluations leave the model as it is",
            "forward_training": "weights are changed by the optimizer alone, and only the model's variables are read",
            "update": "it takes gradients, weights and the optimizer's own state, and nothing that has seen pictures",
        }.get(self.function.name, "that is not for this function")
        verb = "assigns" if assigns else "reads"
        self._refuse(f"{node.op} at {node.name!r} {verb} {variable.name!r}, {kind[variable.role]}: {may}", node)

    def _refuse(self, what, node=None):
        raise Problem(self.function.name, what, node.name if node is not None else "", self._inner)


# ---------------------------------------------------------------- what a rank calls


class Program:
    """The graphs of a built submission, checked, and its variables; what a rank trains.

    Attributes
    ----------
    settings
        ``samples``, ``ghost_batch``, ``compression``, ``precision``.
    weights, statistics, state
        Lists of `tf.Variable`.

    Raises
    ------
    Refused
        Where the folder holds anything that a builder may not hand over.
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
        self._assigned = check(self._exported, self.described, self.ghost_batch)
        shapes = [each.shape for each in self.described if each.role == "weight"]
        self._signatures = {name: signature(name, self.ghost_batch, shapes) for name in self._exported}
        for each in self._exported.values():
            _settle(each.graph)
        self.variables: list[tf.Variable] = []

    def __contains__(self, name: str) -> bool:
        return name in self._exported

    def role(self, role: str) -> list[tf.Variable]:
        """Return the variables of one of `ROLES`."""
        return [variable for variable, each in zip(self.variables, self.described, strict=True) if each.role == role]

    @property
    def weights(self) -> list[tf.Variable]:
        return self.role("weight")

    @property
    def statistics(self) -> list[tf.Variable]:
        return self.role("statistic")

    def start(self, seed: int) -> None:
        """Give all variables the initial values of a seed.

        Raises
        ------
        Refused
            Where these are missing, or not of the shapes that were described.
        """
        arrays = initial_values(self.folder / f"start-{int(seed)}.npz", self.described)
        if not self.variables:
            # Horovod tells them apart by name.
            self.variables = [
                tf.Variable(array, trainable=False, name=f"submission_{number}") for number, array in enumerate(arrays)
            ]
        for variable, array in zip(self.variables, arrays, strict=True):
            variable.assign(array)

    def call(self, name: str, *inputs: tf.Tensor) -> tf.Tensor:
        """Add a function's graph to the graph that is being traced; return its output, after all that it assigns.

        Without an output it is a Boolean. Gradients of it are taken by `tf.gradients`. At run time each variable that
        it assigns is seen to keep its shape.
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
                    raise Problem(name, f"it returns {output.dtype.name} {output.shape}, not {_text(spec)}")
        except (ValueError, TypeError, tf.errors.OpError) as error:
            if isinstance(error, Refused):
                raise
            raise Problem(name, f"its graph cannot be used ({str(error).splitlines()[0]}): build it again") from error
        with tf.control_dependencies([*controls, *outputs]):
            kept = [
                tf.debugging.assert_equal(
                    tf.raw_ops.VariableShape(input=graph.capture(self.variables[number].handle)),
                    tf.constant(self.described[number].shape, tf.int32, [len(self.described[number].shape)]),
                    message=f"{name} has changed the shape of {self.described[number].name!r}: variables keep theirs.",
                )
                for number in self._assigned[name]
            ]
        with tf.control_dependencies([*controls, *(each for each in kept if each is not None)]):
            if not gives:
                return tf.identity(True)
            return tf.ensure_shape(outputs[0], gives[0].shape)


def failed(error: tf.errors.OpError) -> str:
    """Return in one sentence why a graph failed as it ran: a check of `Program.call`, or an operation of its own."""
    told = re.search(r"assertion failed: \[(.+?)\] \[", error.message)
    if told:
        return told[1].replace("\\'", "'")
    lines = re.sub(r"{{.*?}} ?", "", error.message).splitlines()  # TensorFlow's own names of places
    last = [line.strip() for line in lines if line.strip() and not line.startswith("\t")][-1]
    return f"a graph of the submission failed as it ran: {last[:300]}"


def check_settings(settings: Mapping) -> None:
    """Check the numbers and names that a file sets, as one who trusts nobody; Refused says which is wrong."""

    def whole(name):
        value = settings.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refused(f"{name.upper()} is {value!r}: it is a whole number")
        return value

    samples, ghost = whole("samples"), whole("ghost_batch")
    batch = rules.GLOBAL_BATCH
    if samples % batch or not batch <= samples <= rules.MOST_SAMPLES:
        raise Refused(
            f"SAMPLES is {samples:,}: it is a multiple of the global batch, {batch:,}, from that to "
            f"{rules.MOST_SAMPLES:,}"
        )
    if not 2 <= ghost <= batch or batch % ghost:
        raise Refused(
            f"GHOST_BATCH is {ghost}: it is 2 or more, and divides a rank's part of the {batch:,} pictures of a step"
        )
    for name, choices in (("compression", rules.COMPRESSIONS), ("precision", rules.PRECISIONS)):
        if settings.get(name) not in choices:
            raise Refused(f"{name.upper()} is {settings.get(name)!r}: it is one of {', '.join(map(repr, choices))}")


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
    return arrays


DTYPES = ("float32", "int32", "int64", "bool")


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
    if path.stat().st_size > rules.GRAPH_BYTES:
        raise ValueError(f"{path.name} is too large")
    try:
        graph = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    except Exception as error:  # protobuf's own class lies elsewhere in each of its implementations
        raise ValueError(f"{path.name} is no graph") from error
    inputs, outputs, controls = (tuple(map(str, names[key])) for key in ("inputs", "outputs", "controls"))
    return Exported(graph, inputs, outputs, controls, {str(key): value for key, value in names["variables"].items()})


def _settle(graph):
    """Leave neither devices nor instructions to compilers in a graph, and make its functions known by names of its own.

    TensorFlow finds functions by name in one place for the whole process, the harness's own among them.
    """
    digest = hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest()[:16]
    names = {each.signature.name: f"submission_{digest}_{place}" for place, each in enumerate(graph.library.function)}
    for inner in graph.library.function:
        inner.signature.name = names[inner.signature.name]
        inner.attr.clear()
    for node in [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]:
        node.device = ""
        for name in [name for name in node.attr if name.startswith("_") and name not in KEPT]:
            del node.attr[name]
        for value in node.attr.values():
            for each in [value.func] if value.HasField("func") else value.list.func:
                each.name = names[each.name]
    for inner in graph.library.function:
        context.context().add_function_def(inner)


def _text(spec) -> str:
    return f"{spec.dtype.name} {spec.shape}"
