"""Parts that compute in bfloat16, and hardware that supports it."""

import pytest

from course.training import precision
from course.training.precision import choose
from course.training.recipes import SettingError


def cpuinfo(*flags):
    text = f"processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu {' '.join(flags)} sse2\nbugs\t\t: amx_bf16_bug\n\n"
    return text + text.replace(": 0", ": 1")


WITHOUT, AVX512, AMX = cpuinfo("avx512f"), cpuinfo("avx512f", "avx512_bf16"), cpuinfo("avx512_bf16", "amx_bf16")
NO_X86 = "processor\t: 0\nFeatures\t: fp asimd bf16\n"


@pytest.fixture
def processor(tmp_path, monkeypatch):
    """Return a function that makes this the processor that a text describes."""
    monkeypatch.setattr(precision, "CPUINFO", tmp_path / "cpuinfo")
    return (tmp_path / "cpuinfo").write_text


def test_precision_is_chosen_by_hardware(processor):
    for asked, capability, text, chosen in (
        ("float32", (9, 0), AMX, "float32"),
        ("tf32", (9, 0), WITHOUT, "tf32"),
        ("tf32", (7, 5), WITHOUT, "float32"),
        ("tf32", None, AMX, "float32"),
        ("bfloat16", None, AVX512, "bfloat16"),
        ("bfloat16", None, AMX, "bfloat16"),
        ("bfloat16", (7, 0), WITHOUT, "bfloat16"),
        ("auto", None, WITHOUT, "float32"),
        ("auto", None, AVX512, "float32"),
        ("auto", None, AMX, "bfloat16"),
        ("auto", (7, 5), AMX, "float32"),
        ("auto", (8, 0), WITHOUT, "bfloat16"),
    ):
        processor(text)
        assert choose(asked, capability) == chosen
    for text in (WITHOUT, NO_X86):
        processor(text)
        with pytest.raises(SettingError, match="neither amx_bf16 nor avx512_bf16"):
            choose("bfloat16")


@pytest.fixture(scope="module", params=["batch", "sync"])
def step(request):
    """A training step of a network built for bfloat16: (model, optimizer, gradients, logits, loss, operations)."""
    tf = pytest.importorskip("tensorflow")
    hvd = pytest.importorskip("horovod.tensorflow")
    from course.training import models, optimizer

    hvd.init()
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = models.build("cnn", norm="batch", sync_norm=request.param == "sync")
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    optim = optimizer.make("sgd", 0.1, model.trainable_variables)

    def forward_backward(pictures, labels):
        with tf.GradientTape() as tape:
            logits = model(pictures, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        return tape.gradient(loss, model.trainable_variables), logits, loss

    graph = tf.function(forward_backward).get_concrete_function(
        tf.TensorSpec([4, 32, 32, 3]), tf.TensorSpec([4], tf.int32)
    )
    gradients, logits, loss = graph.structured_outputs
    return model, optim, gradients, logits, loss, graph.graph.get_operations()


def test_only_the_layers_compute_in_bfloat16(step):
    model, optim, gradients, logits, loss, operations = step
    variables = [*model.variables, *optim.variables()]
    assert {v.dtype.name for v in variables if v.shape.rank} == {"float32"}
    assert {tensor.dtype.name for tensor in (*gradients, logits, loss)} == {"float32"}
    convolutions = [op for op in operations if op.type.startswith("Conv2D")]
    assert len(convolutions) == 4 * 3  # forward, and backward to filters and to inputs
    assert {op.get_attr("T").name for op in convolutions} == {"bfloat16"}
