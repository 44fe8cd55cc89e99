"""What the builder makes of a submission's file, and what it refuses: each trick beside an honest use of its form."""

import re
import textwrap

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import submissions
from course.challenge import rules
from course.challenge.rules import Refused

TINY = f"""{submissions.TINY}
class Network(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = tiny()

class Learn(layers.Dense):
    def call(self, x, training=False):
        if training:
            learn(self, x)
        return super().call(x)

class Views(Network):
    def call(self, x, training=False):
        return views(self.inner, x, training)

class Own(tf.keras.optimizers.SGD):
    def apply_gradients(self, pairs):
        step(super().apply_gradients, self, list(pairs))

def own():
    return Own(0.1)

MADE = []

def kept():
    MADE.append(tiny(layers.BatchNormalization()))
    return MADE[-1]
"""


@pytest.fixture(autouse=True)
def policy():
    yield
    tf.keras.mixed_precision.set_global_policy("float32")


def submission(text, tiny=TINY):
    return submissions.submission(tiny + textwrap.dedent(text))


# ---------------------------------------------------------------- honest ones

HONEST = {
    "one line": ("PEAK = 0.8", ""),
    "random numbers, conditions in Python, a function in another, a name like one of the rules'": (
        """
        BIAS_RATE, GLOBAL_BATCH = 0.2, 1024

        def augment(pictures, numbers, epoch, key):
            flip = tf.random.stateless_uniform([32], key) < 0.5
            flip = tf.where((numbers + epoch) % 2 == 0, flip, False)
            return tf.where(flip[:, None, None, None], pictures[:, :, ::-1], pictures)

        def schedule(done):
            if done < 0.5:
                return BIAS_RATE
            return BIAS_RATE * (1 - done)

        @tf.function
        def smooth(labels):
            return tf.one_hot(labels, 10) * 0.9 + 0.01

        def loss(logits, labels):
            return tf.nn.softmax_cross_entropy_with_logits(smooth(labels), logits)
        """
    ),
    "bfloat16, SiLU, an older optimizer, a loop and a small constant in the loss": (
        """
        PRECISION = "bfloat16"
        MEANS = tf.constant(np.random.default_rng(0).normal(size=[64, 10]), tf.float32)

        def model():
            return tiny(layers.Dense(8, "swish"), layers.Activation("linear", dtype="float32"))

        def optimizer():
            return tf.keras.optimizers.legacy.Adam(0.001)

        def loss(logits, labels):
            norms = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 0.5), (0, logits))[1]
            logits += 0 * norms - tf.reduce_mean(MEANS, 0)
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        """
    ),
    "frozen whitening, averaged weights": (
        """
        def model():
            return tiny(layers.Dense(48, use_bias=False, trainable=False, name="whitening"))

        def prepare(model, pictures):
            flat = tf.reshape(tf.nn.avg_pool2d(pictures, 8, 8, "SAME"), [-1, 48])
            flat -= tf.reduce_mean(flat, 0)
            values, vectors = tf.linalg.eigh(tf.matmul(flat, flat, transpose_a=True) / 1024)
            model.get_layer("whitening").kernel.assign(vectors / tf.sqrt(values + 1e-3))

        class Averaged(tf.keras.optimizers.SGD):
            def build(self, variables):
                if not getattr(self, "_built", False):
                    super().build(variables)
                    self.averages = [self.add_variable_from_reference(each, "average") for each in variables]

            def apply_gradients(self, pairs):
                pairs = list(pairs)
                super().apply_gradients(pairs)
                for average, (_, weight) in zip(self.averages, pairs):
                    average.assign(0.9 * average + 0.1 * weight)

        def optimizer():
            return Averaged(0.1)

        def finish(model, optimizer):
            for average, weight in zip(optimizer.averages, model.trainable_variables):
                weight.assign(average)
        """
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_file_is_built(name):
    text = HONEST[name]
    answer = submission(*text if isinstance(text, tuple) else [text]).built([1])
    assert {"augment", "forward_training", "loss", "update", "forward_inference"} <= set(answer["functions"])
    assert set(answer["files"]) == {f"{each}.pb" for each in answer["functions"]} | {"start-1.npz"}
    prepared = name.startswith("frozen")
    assert answer["settings"]["prepare"] == answer["settings"]["finish"] == prepared
    assert (answer["settings"]["passes"], answer["settings"]["prepare_samples"]) == (1, 1024 * prepared)


def test_what_a_file_leaves_out_is_the_baselines():
    ours = submission("PEAK = 0.5", tiny="")
    assert (ours.SAMPLES, ours.GHOST_BATCH, ours.PEAK) == (180_224, 32, 0.5)
    assert float(ours.schedule(tf.constant(0.25))) == pytest.approx(0.5)  # its schedule reads the file's capitals


def test_seeds_draw_other_initial_values_and_a_seed_the_same_again():
    one, two, again = (submission("").make(seed) for seed in (1, 2, 1))
    kernels = [made.model.get_layer(index=-1).kernel.numpy() for made in (one, two, again)]
    assert np.abs(kernels[0] - kernels[1]).max() > 0.1
    assert np.array_equal(kernels[0], kernels[2])


# ---------------------------------------------------------------- what counts more than once

CONVOLUTIONS = """
class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.dense = layers.Conv2D(8, 3, padding="same"), layers.Dense(10)

    def inner(self, x):
        return self.dense(tf.reduce_mean(tf.nn.relu(self.first(x)), [1, 2]))

def model():
    return Net()

"""
# The lines of Net's call, or further ones, and as how many samples a picture counts in a step, and prepare.
COUNTED = {
    "one view": ("return self.inner(x)", 1, 0),
    "four copies of each picture in a pass": (
        """
        if not training:
            return self.inner(x)
        copies = tf.concat([x, x[:, :, ::-1], tf.roll(x, 2, 1), tf.roll(x, 2, 2)], 0)
        return tf.reduce_mean(tf.reshape(self.inner(copies), [4, -1, 10]), 0)
        """,
        *(4, 0),
    ),
    "two views in evaluations, paid for by a dummy in training": (
        "return self.inner(x) + (0 * self.inner(0 * x) if training else self.inner(x[:, :, ::-1]))",
        *(2, 0),
    ),
    "two views in one batch, and as many in training": (
        """
        a, b = tf.split(self.inner(tf.concat([x, x[:, :, ::-1]], 0)), 2)
        return a + (0 * b if training else b)
        """,
        *(2, 0),
    ),
    "two views side by side in one picture": (
        "return self.inner(tf.concat([x, 0 * x if training else x[:, :, ::-1]], 2))",
        *(2, 0),
    ),
    "two views by a kernel that is made anew for each": (
        """
        kernel = lambda view: self.first.kernel + 0 * tf.reduce_sum(view)
        if not self.first.built:
            return self.inner(x)
        views = [x, 0 * x if training else x[:, :, ::-1]]
        return self.dense(sum(tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(v, kernel(v), 1, "SAME")), [1, 2]) for v in views))
        """,
        *(2, 0),
    ),
    "two views by a kernel and its copy": (
        """
        if not hasattr(self, "copy"):
            self.copy = layers.Conv2D(8, 3, padding="same")
        second = self.copy(0 * x if training else x[:, :, ::-1])
        return self.dense(tf.reduce_mean(tf.nn.relu(self.first(x)) + tf.nn.relu(second), [1, 2]))

        def finish(model, optimizer):
            model.copy.kernel.assign(1.0 * model.first.kernel)
        """,
        *(2, 0),
    ),
    "two views by kernels that one gradient goes to": (
        """
        if not hasattr(self, "copy"):
            self.copy = layers.Conv2D(8, 3, padding="same", kernel_initializer="ones")
        first = self.first(x if training else 0.5 * x)
        second = self.copy(0 * x if training else x[:, :, ::-1])
        return self.dense(tf.reduce_mean(tf.nn.relu(first), [1, 2]) + tf.reduce_mean(tf.nn.relu(second), [1, 2]))

        def step(apply, optimizer, pairs):
            gradient = next(g for g, w in pairs if "conv2d/kernel" in w.name)
            for _, weight in pairs:
                if len(weight.shape) == 4:
                    weight.assign_sub(0.1 * gradient)

        optimizer = own
        """,
        *(2, 0),
    ),
    "two views by two kernels in training": (
        """
        logits = self.inner(x)
        if training:
            logits += self.dense(tf.reduce_mean(tf.nn.conv2d(x, tf.ones([3, 3, 3, 8]), 1, "SAME"), [1, 2]))
        return logits
        """,
        *(2, 0),
    ),
    "an autoencoder trained in prepare": (
        """
        return self.inner(x)

        def prepare(model, pictures):
            flat = tf.reshape(pictures, [1024, 3072])
            down = up = tf.random.stateless_normal([3072, 512], [1, 2]) / 64
            for _ in range(10):
                code = tf.matmul(flat, down)
                wrong = tf.matmul(code, up, transpose_b=True) - flat
                down -= tf.matmul(flat, tf.matmul(wrong, up), transpose_a=True) / 1e6
                up -= tf.matmul(wrong, code, transpose_a=True) / 1e6
            model.dense.kernel.assign(down[:8, :10])
        """,
        *(1, 3 * 1024),
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_each_further_pass_over_a_picture_counts(name):
    lines, passes, prepare_samples = COUNTED[name]
    call, *rest = textwrap.dedent(lines).strip().split("\n\n")
    inside = textwrap.indent("def call(self, x, training=False):\n" + textwrap.indent(call, "    "), "    ")
    text = CONVOLUTIONS.replace("\ndef model", f"\n{inside}\n\ndef model") + "\n\n".join(rest)
    settings = submission(text).built([1])["settings"]
    assert (settings["passes"], settings["prepare_samples"]) == (passes, prepare_samples)


# ---------------------------------------------------------------- refused ones

REFUSED = {
    "training on more samples than counted, by passes in the optimizer": (
        """
        def step(apply, optimizer, pairs):
            apply(pairs)
            loss = tf.reduce_sum(MADE[-1](tf.zeros([32, 32, 32, 3])))
            apply(zip(tf.gradients(loss, [w for _, w in pairs]), [w for _, w in pairs]))

        model, optimizer = kept, own
        """,
        "in optimizer: the operation AvgPool .* is refused",
    ),
    "an autoencoder trained in a loop of prepare": (
        """
        def model():
            return tiny(layers.Dense(48, name="code"))

        def prepare(model, pictures):
            flat, kernel = tf.reshape(tf.nn.avg_pool2d(pictures, 8, 8, "SAME"), [-1, 48]), tf.eye(48)
            for _ in tf.range(2000):
                wrong = tf.matmul(tf.matmul(flat, kernel), kernel, transpose_b=True) - flat
                kernel -= tf.matmul(flat, tf.matmul(wrong, kernel), transpose_a=True) / 1e5
            model.get_layer("code").kernel.assign(kernel)
        """,
        "in prepare: the arithmetic of .* cannot be counted, as how often",
    ),
    "weights that the optimizer assigns": (
        """
        LEARNED = np.random.default_rng(0).normal(size=[48, 10]).astype(np.float32)

        def step(apply, optimizer, pairs):
            apply(pairs)
            pairs[-2][1].assign(tf.where(optimizer.iterations == 3, LEARNED, pairs[-2][1]))

        optimizer = own
        """,
        "in optimizer: arrays of numbers in its graph take 1,9.. bytes, and 1,024 are the most where weights are",
    ),
    "weights that finish assigns": (
        """
        def finish(model, optimizer):
            model.layers[-1].kernel.assign(np.random.default_rng(0).normal(size=[48, 10]).astype(np.float32))  # HERE
        """,
        "in finish: arrays of numbers in its graph take",
    ),
    "weights in the optimizer's state": (
        """
        class Bringing(tf.keras.optimizers.SGD):
            def build(self, variables):
                if not getattr(self, "_built", False):
                    super().build(variables)
                    self.learned = self.add_variable_from_reference(variables[0], "learned", initial_value=tf.random.normal([48, 10]))

        def optimizer():
            return Bringing(0.1)
        """,
        "mine.py: optimizer: the initial values of .*learned.* are neither one number",
    ),
    "a smaller real batch": ("GHOST_BATCH = 1", "GHOST_BATCH is 1: it must be 2 or more"),
    "a Python function": (
        """
        def augment(pictures, numbers, epoch, key):
            return tf.ensure_shape(tf.py_function(lambda x: x, [pictures], tf.float32), [32, 32, 32, 3])  # HERE
        """,
        "in augment: the operation EagerPyFunc .* start Python",
    ),
    "a NumPy function": (
        """
        def loss(logits, labels):
            return tf.ensure_shape(tf.numpy_function(lambda x: x[:, 0], [logits], tf.float32), [32])  # HERE
        """,
        "in loss: the operation PyFunc .* start Python",
    ),
    "a file": (
        """
        def augment(pictures, numbers, epoch, key):
            bytes = tf.io.read_file("/etc/hostname")  # HERE
            return pictures + 0 * tf.cast(tf.strings.length(bytes), tf.float32)
        """,
        "in augment: the operation ReadFile .* only the harness reads the data",
    ),
    "a file in a branch that is not taken": (
        """
        def augment(pictures, numbers, epoch, key):
            if epoch > 1000:
                pictures += 0 * tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32)  # HERE
            return pictures
        """,
        "in augment: the operation ReadFile .* only the harness reads the data",
    ),
    "a data pipeline": (
        """
        def augment(pictures, numbers, epoch, key):
            rows = tf.data.Dataset.from_tensors(pictures)  # HERE
            return pictures + 0 * tf.ensure_shape(rows.reduce(tf.zeros_like(pictures), lambda a, b: b), pictures.shape)
        """,
        "in augment: the operation \\w*Dataset .* take the images that the function is given",
    ),
    "an iterator from outside": (
        """
        ROWS = iter(tf.data.Dataset.from_tensors(tf.zeros([32, 32, 32, 3])).repeat())

        def augment(pictures, numbers, epoch, key):
            return pictures + next(ROWS)
        """,
        "in augment: it uses a variable or a table",
    ),
    "random numbers of their own": (
        """
        def augment(pictures, numbers, epoch, key):
            return pictures + tf.random.normal(pictures.shape)  # HERE
        """,
        "in augment: the operation RandomStandardNormal .*stateless_uniform\\(shape, key\\)",
    ),
    "dropout": (
        """
        def model():
            return tiny(layers.Dropout(0.5))
        """,
        "in model: the operation RandomUniform .* Dropout",
    ),
    "printing into a file": (
        """
        def loss(logits, labels):
            tf.print(logits, output_stream="file:///tmp/result.json")  # HERE
            return tf.reduce_sum(logits, 1)
        """,
        "in loss: the operation (StringFormat|PrintV2) .* prints or writes files",
    ),
    "data in the program": (
        """
        DATA = tf.constant(np.random.default_rng(0).normal(size=[200, 100]), tf.float32)

        def loss(logits, labels):
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits) + 0 * tf.reduce_sum(DATA)
        """,
        "in loss: constants in the graphs take more than 64 KiB",
    ),
    "a replay buffer in a variable": (
        """
        class Keep(layers.Layer):
            def build(self, shape):
                self.buffer = self.add_weight("buffer", [100, 32, 32, 3], trainable=False)

            def call(self, x, training=False):
                if training:
                    self.buffer.assign(tf.concat([self.buffer[32:], x], 0))
                return x

        def model():
            pictures = layers.Input((32, 32, 3))
            x = layers.Flatten()(Keep()(pictures))
            return tf.keras.Model(pictures, layers.Dense(10)(x))
        """,
        "forward_training: the variables that it assigns take 1.17 MiB, and 0.25 MiB is the most",
    ),
    "training in the forward pass": (
        """
        def learn(layer, x):
            layer.kernel.assign_sub(0.1 * tf.matmul(x, x, transpose_a=True))  # HERE

        def model():
            return tiny(Learn(48))
        """,
        "in model: AssignSubVariableOp .* assigns 'learn/kernel:0', a trainable weight: .* by the optimizer alone",
    ),
    "a weight behind other operations": (
        """
        def learn(layer, x):
            (handle,) = tf.raw_ops.IdentityN(input=[layer.kernel.handle])  # HERE
            tf.raw_ops.AssignSubVariableOp(resource=handle, value=0.1 * layer.kernel)

        def model():
            return tiny(Learn(48))
        """,
        "in model: IdentityN .* takes a variable itself, not its value",
    ),
    "a weight that a function is given": (
        """
        @tf.function(input_signature=[tf.TensorSpec([], tf.resource)])
        def shrink(handle):
            tf.raw_ops.AssignSubVariableOp(resource=handle, value=tf.ones([48, 48]))

        def learn(layer, x):
            shrink(layer.kernel.handle)

        def model():
            return tiny(Learn(48))
        """,
        "in model: AssignSubVariableOp .* assigns 'learn/kernel:0', a trainable weight",
    ),
    "a weight that a loop takes for another": (
        """
        class Scale(layers.Layer):
            def build(self, shape):
                self.mean = self.add_weight("mean", [48], trainable=False)
                self.scale = self.add_weight("scale", [48])

            def call(self, x, training=False):
                if training:
                    handle, number = tf.TensorSpec([], tf.resource), tf.TensorSpec([], tf.int32)

                    def body(i, a, b):
                        tf.raw_ops.AssignVariableOp(resource=a, value=tf.ones([48]))
                        return i + 1, b, a

                    traced = [
                        tf.function(f).get_concrete_function(number, handle, handle)
                        for f in (lambda i, a, b: i < 2, body)
                    ]
                    tf.raw_ops.While(input=[0, self.mean.handle, self.scale.handle], cond=traced[0], body=traced[1])
                return x * self.scale

        def model():
            return tiny(Scale())
        """,
        "in model: the loop at .* takes another variable in each of its rounds",
    ),
    "training in evaluations": (
        """
        class Adapt(layers.Layer):
            def build(self, shape):
                self.mean = self.add_weight("mean", [48], trainable=False)

            def call(self, x, training=False):
                self.mean.assign(tf.reduce_mean(x, 0))  # HERE
                return x - self.mean

        def model():
            return tiny(Adapt())
        """,
        "in model: AssignVariableOp .* assigns '.*mean:0', a variable of the model: evaluations must leave the model as it is",
    ),
    "two views of a picture": (
        """
        def views(inner, x, training):
            logits = inner(x, training=training)
            return logits if training else (logits + inner(x[:, :, ::-1])) / 2

        model = Views
        """,
        r"in model: evaluations take [\d,]+ operations for an image, and training's forward pass [\d,]+: several views of",
    ),
    "two views in one batch": (
        """
        def views(inner, x, training):
            if training:
                return inner(x, training=True)
            return tf.add(*tf.split(inner(tf.concat([x, x[:, :, ::-1]], 0)), 2))

        model = Views
        """,
        "several views of an image do not count",
    ),
    "two views in a loop": (
        """
        def views(inner, x, training):
            if training:
                return inner(x, training=True)
            view = lambda i, sums: (i + 1, sums + inner(tf.roll(x, i, 2)))
            return tf.while_loop(lambda i, _: i < 2, view, (0, tf.zeros([x.shape[0], 10])))[1]  # HERE

        model = Views
        """,
        "in model: the arithmetic of .* cannot be counted, as how often",
    ),
    "two views, paid for in a branch that is not taken": (
        """
        def views(inner, x, training):
            logits = inner(x, training=training)
            second = lambda: inner(x[:, :, ::-1])
            if training:
                return logits + tf.cond(x[0, 0, 0, 0] > 2.0, second, lambda: tf.zeros_like(logits))
            return logits + second()

        model = Views
        """,
        "in model: the arithmetic of .* cannot be counted, as how often",
    ),
    "pictures in the update": (
        """
        def step(apply, optimizer, pairs):
            statistics = MADE[-1].non_trainable_variables[0]
            apply([(g + 0 * tf.reduce_sum(statistics), w) for g, w in pairs])  # HERE

        model, optimizer = kept, own
        """,
        "in optimizer: ReadVariableOp .* reads '.*', a variable of the model: it takes gradients, weights",
    ),
    "a network in finish": (
        """
        def finish(model, optimizer):
            tf.nn.conv2d(tf.zeros([1, 8, 8, 3]), tf.zeros([3, 3, 3, 8]), 1, "SAME")  # HERE
        """,
        "in finish: the operation Conv2D .* no network runs between gradients and weights",
    ),
    "a loss that peeks at the weights": (
        """
        model = kept

        def loss(logits, labels):
            return tf.reduce_sum(logits, 1) + tf.reduce_sum(MADE[-1].trainable_variables[-1])  # HERE
        """,
        "in loss: ReadVariableOp .* reads 'dense.*', a trainable weight: it may use only logits and labels",
    ),
    "a loss that peeks at the pictures": (
        """
        SEEN = []

        def augment(pictures, numbers, epoch, key):
            SEEN.append(pictures)
            return pictures

        def loss(logits, labels):
            return tf.reduce_sum(logits, 1) + tf.reduce_sum(SEEN[-1])
        """,
        "in loss: it uses a tensor of another function \\(pictures:0\\)",
    ),
    "a variable of nobody's": (
        """
        COUNT = tf.Variable(0.0)

        def loss(logits, labels):
            COUNT.assign_add(1.0)
            return tf.reduce_sum(logits, 1) * COUNT
        """,
        "in loss: it uses a variable or a table that is neither the model's nor the optimizer's",
    ),
    "a gradient of its own": (
        """
        @tf.custom_gradient
        def flat(x):
            return x, lambda upstream: 0 * upstream

        def loss(logits, labels):
            return tf.reduce_sum(flat(logits), 1)
        """,
        "in loss: .* has a gradient of its own \\(tf.custom_gradient\\)",
    ),
    "fewer pictures": (
        """
        def augment(pictures, numbers, epoch, key):  # HERE
            return pictures[:8]
        """,
        "augment returns float32 \\(8, 32, 32, 3\\) .* float32 \\[32, 32, 32, 3\\]",
    ),
    "too few logits": (
        """
        def model():  # HERE
            pictures = layers.Input((32, 32, 3))
            return tf.keras.Model(pictures, layers.Dense(7)(layers.Flatten()(pictures)))
        """,
        "model returns float32 \\(32, 7\\) .* float32 \\[32, 10\\]",
    ),
    "no Python": ("def loss(logits, labels:  # HERE\n    return 1\n", "this is not Python"),
    "a mistake in a traced function": (
        """
        def loss(logits, labels):
            return tf.matmul(logits, logits)  # HERE
        """,
        "in loss: ValueError: ",
    ),
    "leaving": ("import sys\nsys.exit(0)  # HERE\n", "it ends the process"),
    "a part of a step": ("SAMPLES = 1000", "mine.py: SAMPLES is 1,000: it must be a multiple of the global batch"),
    "uneven passes": ("GHOST_BATCH = 48", "mine.py: GHOST_BATCH is 48"),
    "a name that means another": (
        "GHOST_BACTH = 64",
        "no setting or function is called GHOST_BACTH: did you mean GHOST_BATCH",
    ),
    "another global batch": ("GLOBAL_BATCH = 64", "mine.py: GLOBAL_BATCH is 64; the rules fix it at 1,024"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_trick_or_a_mistake_is_refused_in_one_sentence(name):
    """It names the line that is marked by `# HERE`, if there is one."""
    text, words = REFUSED[name]
    with pytest.raises(Refused) as caught:
        submission(text).built([1])
    sentence = str(caught.value)
    assert re.search(words, sentence) and "\n" not in sentence and len(sentence) < rules.FILE_BYTES / 20, sentence
    for number, line in enumerate((TINY + textwrap.dedent(text)).splitlines(), 1):
        assert "# HERE" not in line or f"mine.py, line {number}" in sentence, sentence
