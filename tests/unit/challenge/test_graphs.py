"""Graphs on a rank: they train as Keras does, and what a forged folder holds is refused there again."""

import json
import re
import shutil

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from course.challenge.graphs import Program, failed
from course.challenge.rules import Refused
from submissions import START, program, submission

SOURCE = f"""{START}
SAMPLES = 4096
GHOST_BATCH = 16

class Grow(layers.Layer):
    def build(self, shape):
        self.kept = self.add_weight("kept", [16], trainable=False)

    def call(self, x, training=False):
        if training:
            factor = tf.cast(FACTOR + 0 * x[0, 0], tf.int32)  # known when it runs, and not before
            many = tf.reshape(x, [16 * factor, -1])
            tf.raw_ops.AssignVariableOp(resource=self.kept.handle, value=tf.reduce_mean(many, 1))
        return x

FACTOR = 1

def model():
    pictures = layers.Input((32, 32, 3))
    x = layers.Conv2D(4, 3, strides=4, use_bias=False)(pictures)
    x = layers.Dense(8, "swish")(layers.Flatten()(layers.BatchNormalization()(x)))
    return tf.keras.Model(pictures, layers.Dense(10)(Grow()(x)))

def loss(logits, labels):
    halves = tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x * 0.5), (0, logits))[1]
    wanted = tf.one_hot(labels, 10) * 0.9 + 0.01
    return tf.nn.softmax_cross_entropy_with_logits(wanted, logits) + tf.reduce_sum(halves**2, 1)

def optimizer():
    return tf.keras.optimizers.Adam(0.01)

def schedule(done):
    if done < 0.3:
        return 0.01
    return 0.01 * (1 - done)
"""


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    made = submission(SOURCE)
    return program(made, tmp_path_factory.mktemp("honest"), 3).folder, made


@pytest.fixture
def forged(honest, tmp_path):
    """Return a copy of an honest folder."""
    return shutil.copytree(honest[0], tmp_path / "forged")


def step_of(program):
    @tf.function(autograph=False)
    def step(pictures, labels, done):
        logits = program.call("forward_training", pictures)
        loss = tf.reduce_mean(program.call("loss", logits, labels))
        gradients = tf.gradients(loss, program.weights)
        with tf.control_dependencies([program.call("update", *gradients, done)]):
            return tf.identity(loss), gradients

    return step


def batches(count, size=16):
    generator = np.random.default_rng(5)
    for _ in range(count):
        pictures = generator.random((size, 32, 32, 3)).astype(np.float32)
        yield tf.constant(pictures), tf.constant(generator.integers(0, 10, size).astype(np.int32))


def test_graphs_train_as_keras_does(honest):
    # SiLU, batch norm, a loop in the loss, Adam, and a schedule with a condition.
    folder, file = honest
    program = Program(folder)
    program.start(3)
    step, made = step_of(program), file.make(3)
    for number, (pictures, labels) in enumerate(batches(4)):
        loss, gradients = step(pictures, labels, tf.constant(number / 4))
        with tf.GradientTape() as tape:
            expected = tf.reduce_mean(file.loss(made.model(pictures, training=True), labels))
        wanted = tape.gradient(expected, made.model.trainable_variables)
        made.optimizer.learning_rate.assign(0.01 if number < 2 else 0.01 * (1 - number / 4))
        made.optimizer.apply_gradients(zip(wanted, made.model.trainable_variables, strict=True))
        assert float(loss) == pytest.approx(float(expected), rel=1e-6)
        for ours, theirs in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(program.variables, made.variables, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    moved = [np.abs(variable.numpy()).max() for variable in program.statistics]
    assert min(moved) > 0  # statistics of the norm, too

    inference = tf.function(lambda pictures: program.call("forward_inference", pictures), autograph=False)
    pictures = tf.random.stateless_uniform([500, 32, 32, 3], (1, 2))
    np.testing.assert_allclose(inference(pictures), made.model(pictures, training=False), rtol=1e-4, atol=1e-5)


def test_a_variable_that_grows_as_it_runs_ends_the_training(tmp_path):
    growing = program(submission(SOURCE + "\nFACTOR = 4\n"), tmp_path, 3)
    growing.start(3)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        step_of(growing)(*next(batches(1)), tf.constant(0.0))
    assert re.search("ran: Trying to assign .* wrong shape. Expected .16. got .64.", failed(caught.value))


def change_graph(folder, name, edit):
    path = folder / f"{name}.pb"
    graph = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    edit(graph)
    path.write_bytes(graph.SerializeToString())


def reading(pictures):
    return pictures + tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32)


def becoming(function):
    """Return an edit that puts the graph of a function in a graph's place."""
    traced = tf.function(function).get_concrete_function(tf.TensorSpec([16, 32, 32, 3]))
    return lambda graph: graph.CopyFrom(traced.graph.as_graph_def())


def calling_another(graph):
    loop = next(node for node in graph.node if node.op in ("While", "StatelessWhile"))
    loop.attr["body"].func.name = "__inference_train_step_99"


FORGED_GRAPHS = {
    "a file": ("augment", becoming(reading), "augment: the operation ReadFile .* is refused"),
    "an input": ("augment", becoming(tf.identity), "augment: nothing is given to its input 'input'"),
    "a function": ("loss", calling_another, "calls '__inference_train_step_99', which is not in its graph"),
}


@pytest.mark.parametrize("name", FORGED_GRAPHS)
def test_a_forged_graph_is_refused_on_the_rank(name, forged):
    function, edit, words = FORGED_GRAPHS[name]
    change_graph(forged, function, edit)
    with pytest.raises(Refused, match=words):
        Program(forged)


def test_devices_named_in_a_graph_are_not_asked_for(forged):
    def name_devices(graph):
        for node in graph.node:
            node.device = "/job:elsewhere/device:GPU:7"

    change_graph(forged, "loss", name_devices)
    program = Program(forged)
    program.start(3)
    loss = tf.function(lambda logits, labels: program.call("loss", logits, labels), autograph=False)
    assert loss(tf.zeros([16, 10]), tf.zeros([16], tf.int32)).shape == [16]


FORGERIES = {
    "samples": (lambda d: d["settings"].update(samples=1000), "SAMPLES is 1,000"),
    "an unknown function": (
        lambda d: d["functions"].update({"../../x": d["functions"]["loss"]}),
        "no built submission",
    ),
    "no loss": (lambda d: d["functions"].pop("loss"), "loss is missing"),
    "a variable without a number": (
        lambda d: d["functions"]["forward_inference"]["variables"].update(pictures=99),
        "names a variable that does not exist",
    ),
    "weights as the optimizer's state": (
        lambda d: d["variables"][0].update(role="state"),
        "forward_training: ReadVariableOp .* reads 'conv2d/kernel:0', the optimizer's state",
    ),
    "a huge variable": (lambda d: d["variables"][0].update(shape=[10**6, 1000]), "its variables take 3,814"),
    "an object": (lambda d: d["variables"][0].update(dtype="string"), "no built submission"),
    "no outputs": (lambda d: d["functions"]["loss"].update(outputs=[]), "loss: its graph cannot be used"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_description_is_refused_on_the_rank(name, forged):
    edit, words = FORGERIES[name]
    described = json.loads((forged / "built.json").read_text())
    edit(described)
    (forged / "built.json").write_text(json.dumps(described))
    with pytest.raises(Refused, match=words):
        program = Program(forged)
        program.start(3)
        step_of(program)(*next(batches(1)), tf.constant(0.0))


def test_initial_values_are_plain_arrays_of_the_described_shapes(forged):
    program = Program(forged)
    with pytest.raises(Refused, match="there is no start-4.npz"):
        program.start(4)
    path = forged / "start-3.npz"
    arrays = dict(np.load(path))
    for change, words in (
        ({"variable_0": np.array([print], object)}, "holds no initial values"),
        ({"variable_0": arrays["variable_0"][:1]}, "are float32 \\[1, "),
        ({"variable_0": arrays["variable_0"] * np.nan}, "not all finite"),
        ({"more": np.zeros(10**6)}, "larger than its variables"),
    ):
        np.savez(path, **{**arrays, **change})
        with pytest.raises(Refused, match=words):
            program.start(3)
    np.savez(path, **arrays)
    program.start(3)  # as they were
