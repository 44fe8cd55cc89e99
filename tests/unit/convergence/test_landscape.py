"""Curvature and gradient noise: against whole Hessians of tiny networks, known matrices and closed forms."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow.keras import layers

from course.convergence.landscape import Landscape, rescaling
from course.convergence.matrices import largest
from course.training.recipes import SettingError

pytestmark = pytest.mark.slow("source_code/course/convergence/*")
CLASSES = 3


def network(norm):
    """Two convolutions and a dense layer of a hundred weights or so, none of them 0."""
    inputs = layers.Input((6, 6, 2))
    x = inputs
    for index, filters in enumerate((3, 4)):
        x = layers.Conv2D(filters, 2, use_bias=norm == "none")(x)
        if not index:
            x = layers.MaxPool2D()(x)
        if norm == "batch":
            x = layers.BatchNormalization(epsilon=1e-6)(x)
        x = layers.ReLU()(x)
    model = tf.keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))
    generator = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(generator.normal(loc=0.3, scale=0.5, size=variable.shape))
    return model


def batches(count=3, size=16, shape=(6, 6, 2)):
    generator = np.random.default_rng(2)
    return [
        (generator.normal(size=(size, *shape)).astype(np.float32), generator.integers(CLASSES, size=size))
        for _ in range(count)
    ]


def whole_hessian(model, data):
    """The Hessian of the mean loss, entry by entry: float64 [weights, weights]."""
    weights = model.trainable_variables

    @tf.function(autograph=False)
    def columns():
        with tf.GradientTape(persistent=True) as outer:
            with tf.GradientTape() as inner:
                losses = [
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(inputs, training=True))
                    for inputs, labels in data
                ]
                loss = tf.reduce_mean(losses)
            gradient = tf.concat([tf.reshape(each, [-1]) for each in inner.gradient(loss, weights)], 0)
        return outer.jacobian(gradient, weights, experimental_use_pfor=False)

    found = columns()
    return np.concatenate([np.reshape(each, (len(each), -1)) for each in found], 1).astype(np.float64)


@pytest.fixture(scope="module")
def known():
    """A network's landscape, and its whole Hessian."""
    model = network("batch")
    statistics = [variable.numpy() for variable in model.non_trainable_variables]
    hessian = whole_hessian(model, batches())
    for variable, value in zip(model.non_trainable_variables, statistics, strict=True):
        variable.assign(value)
    return Landscape(model, batches()), hessian


def test_hessian_products_match_full_hessian(known):
    landscape, hessian = known
    before = landscape.model.get_weights()
    vector = np.random.default_rng(3).normal(size=len(hessian))
    expected = hessian @ vector
    np.testing.assert_allclose(landscape.hessian(vector), expected, atol=1e-4 * np.abs(expected).max())
    landscape.gradient()
    for was, now in zip(before, landscape.model.get_weights(), strict=True):
        np.testing.assert_array_equal(was, now)


def test_eigenvalues_match_full_hessian(known):
    landscape, hessian = known
    found = largest(landscape.hessian, len(hessian), count=3, tolerance=1e-5)
    expected = np.linalg.eigvalsh(hessian)
    np.testing.assert_allclose(found.values, expected[::-1][:3], rtol=1e-3)
    assert np.all(found.residuals < 1e-3 * found.values) and found.products > 16
    coarse = largest(landscape.hessian, len(hessian), iterations=8, tolerance=0.1)
    assert coarse.values[0] == pytest.approx(expected[-1], rel=0.1) and coarse.products < found.products
    with pytest.raises(SettingError, match="allow more --iterations, or a larger --tolerance"):
        largest(landscape.hessian, len(hessian), iterations=3, tolerance=1e-12)


def test_partial_batches_add_up_over_ranks(known):
    landscape, hessian = known
    vector = np.random.default_rng(4).normal(size=len(hessian))
    parts = [Landscape(landscape.model, landscape.batches, rank, 2) for rank in range(2)]
    assert [list(part.mine) for part in parts] == [[0, 2], [1]]
    for of in (lambda each: each.hessian(vector), Landscape.gradient, Landscape.loss):
        np.testing.assert_allclose(sum(map(of, parts)), of(landscape), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("norm", ["batch", "none"])
def test_rescaling_changes_sharpness_not_function(norm):
    landscape = Landscape(network(norm), batches(1))
    start, size, loss = landscape.weights, landscape.weights.size, landscape.loss()
    vector = np.random.default_rng(6).normal(size=size)
    factors = rescaling(landscape.model, 0.2)
    sharpness, adaptive = (largest(apply, size, tolerance=1e-4) for apply in (landscape.hessian, landscape.adaptive))
    product = landscape.hessian(vector / factors) / factors

    landscape.move(factors * start)
    assert landscape.loss() == pytest.approx(loss, abs=1e-5)
    np.testing.assert_allclose(landscape.hessian(vector), product, atol=1e-3 * np.abs(product).max())
    assert largest(landscape.hessian, size, tolerance=1e-4).values[0] > 1.5 * sharpness.values[0]
    assert largest(landscape.adaptive, size, tolerance=1e-4).values[0] == pytest.approx(adaptive.values[0], rel=1e-3)


def per_sample_gradients(data):
    """Of softmax regression at weights of 0: the input times (1/k − one-hot label)."""
    inputs, labels = (np.concatenate(each) for each in zip(*data, strict=True))
    return np.einsum("ni,nk->nik", inputs, 1 / CLASSES - np.eye(CLASSES)[labels]).reshape(len(labels), -1)


def regression(data):
    model = tf.keras.Sequential([layers.Dense(CLASSES, use_bias=False, kernel_initializer="zeros", input_shape=(5,))])
    return Landscape(model, data)


def test_noise_scale_matches_per_sample_gradients():
    data = batches(60, 1, (5,))
    gradients = per_sample_gradients(data)
    variance, square = gradients.var(axis=0, ddof=1).sum(), (gradients.mean(axis=0) ** 2).sum()
    found = regression(data).noise(population=60)
    assert (found["variance"], found["gradient_sq"]) == pytest.approx((variance, square), rel=1e-5)
    assert found["noise_scale"] == pytest.approx(variance / square, rel=1e-5)
    endless = regression(data).noise()
    assert regression(data).loss() == pytest.approx(np.log(CLASSES))
    assert endless["gradient_sq"] == pytest.approx(square - variance / 60, rel=1e-4)
    assert (found["ghost_batch"], found["ghost_batches"]) == (1, 60)
