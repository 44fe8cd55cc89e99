import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("horovod.tensorflow")

from course.training import models


def test_models_map_pictures_to_ten_logits():
    for name, norm, parameters in (("cnn", "none", 242_122), ("cnn", "group", 242_474), ("resnet", "batch", 484_426)):
        model = models.build(name, norm=norm)
        logits = model(np.zeros((3, 32, 32, 3), np.float32))
        assert logits.shape == (3, 10) and logits.dtype == tf.float32
        assert sum(int(tf.size(v)) for v in model.trainable_variables) == parameters
        assert any("gamma" in v.name for v in model.trainable_variables) == (norm != "none")


def test_first_weights_depend_on_the_seed_and_not_on_the_norm():
    first, same, other = (
        [each.numpy() for each in models.build("cnn", **options).trainable_variables if "kernel" in each.name]
        for options in ({"seed": 3}, {"seed": 3, "norm": "batch"}, {"seed": 4})
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_statistics_are_recomputed_from_images():
    model = models.build("cnn", norm="batch", seed=1)
    norms = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    generator = np.random.default_rng(0)
    pictures = tf.constant(generator.normal(size=(40, 32, 32, 3)), tf.float32)
    recompute = models.recomputing(model, pictures)
    for norm in norms:
        norm.moving_mean.assign(generator.normal(size=norm.moving_mean.shape))
    recompute()
    # In evaluation, these pictures are now normalized as in training: with their own mean and variance (nearly: an
    # average keeps the unbiased variance).
    np.testing.assert_allclose(model(pictures, training=False), model(pictures, training=True), rtol=0, atol=0.01)
    assert models.recomputing(models.build("cnn"), pictures) is None
    kept = [norm.moving_variance.numpy() for norm in norms]
    model(pictures[:8], training=True)
    assert all(norm.momentum == models.MOMENTUM for norm in norms)
    assert not any(np.allclose(a, norm.moving_variance) for a, norm in zip(kept, norms))
