"""Sentence embeddings: our own, and one from a folder."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_hub")

from course.multi_gpu import embedding

pytestmark = pytest.mark.slow("source_code/course/multi_gpu/*")
TEXTS = tf.constant(["Hello, World!", "", "hello", "world ?", "¿Qué?", "?!"])


@pytest.fixture(scope="module")
def own():
    return embedding.MeanOfWords(dimensions=8, buckets=512, seed=3)


@pytest.fixture(scope="module")
def folder(own, tmp_path_factory):
    """The same embedding as the folder of a SavedModel, as TensorFlow Hub has them."""
    module = tf.train.Checkpoint()  # a tf.Module can't say which variables to train
    module.table = tf.Variable(own.table.numpy())
    module.trainable_variables = [module.table]
    module.__call__ = tf.function(
        lambda texts: embedding.mean_of_words(module.table, texts), input_signature=[tf.TensorSpec([None], tf.string)]
    )
    path = tmp_path_factory.mktemp("embedding") / "own"
    tf.saved_model.save(module, str(path))
    return path


def test_own_is_the_mean_of_its_words(own):
    vectors = own(TEXTS).numpy()
    assert vectors.shape == (6, 8) and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[0], (vectors[2] + vectors[3]) / 2, rtol=1e-6)
    np.testing.assert_array_equal(vectors[[1, 5]], np.zeros((2, 8)))
    assert np.abs(vectors[4]).max() > 0
    assert own(tf.constant([], tf.string)).shape == (0, 8)


def test_embedding_of_a_folder_gives_its_vectors_and_trains_if_asked(own, folder):
    for trainable in (False, True):
        layer = embedding.make(str(folder), trainable)
        np.testing.assert_array_equal(layer(TEXTS), own(TEXTS))
        assert len(layer.trainable_weights) == trainable
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        layer = embedding.make(str(folder), trainable=True)
    vectors = tf.function(lambda: strategy.run(layer, (TEXTS,)))()
    np.testing.assert_array_equal(vectors, own(TEXTS))
