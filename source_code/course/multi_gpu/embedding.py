"""Sentence embeddings: pretrained from TensorFlow Hub or a folder, and a trainable one.

All of them map strings ``[n]`` to vectors ``[n, d]``. A pretrained one is a SavedModel with that signature.
"""

import os
import warnings
from pathlib import Path

import tensorflow as tf

from course.training.options import OWN
from ddl.errors import InputError
from ddl.records.paths import data_dir

with warnings.catch_warnings():  # deprecation warning for a setuptools module that this library needs
    warnings.simplefilter("ignore")
    import tensorflow_hub as hub


class MeanOfWords(tf.keras.layers.Layer):
    """Trainable mean of the word vectors of a text.

    Words are lower-cased, stripped of punctuation and hashed into buckets, so there is no vocabulary to build, every
    word has a vector, and some words share one. The seed sets the initial vectors.
    """

    def __init__(self, dimensions=64, buckets=8192, seed=0):
        super().__init__(dtype=tf.float32)
        start = tf.keras.initializers.RandomUniform(-0.05, 0.05, seed=seed)
        self.table = self.add_weight("table", (buckets, dimensions), initializer=start)

    def call(self, texts):
        return mean_of_words(self.table, texts)


def mean_of_words(table, texts):
    """Return the mean vector of each text's words, float32 ``[n, d]``, and zeros for a text without words.

    The table is float32 ``[buckets, d]``, and the texts are strings ``[n]``, UTF-8.
    """
    plain = tf.strings.regex_replace(tf.strings.lower(texts, encoding="utf-8"), r"[\p{P}\p{S}]+", " ")
    words = tf.strings.split(plain)
    vectors = tf.gather(table, tf.strings.to_hash_bucket_fast(words.flat_values, table.shape[0]))
    means = tf.math.unsorted_segment_mean(vectors, words.value_rowids(), tf.shape(texts)[0])
    return tf.ensure_shape(means, [None, table.shape[1]])


def make(embedding, trainable=False, seed=0):
    """Return a Keras layer from texts, string ``[n]``, to vectors, float32 ``[n, d]``.

    `embedding` is ``"own"``, the folder of a SavedModel, or the address (handle) of one, such as TensorFlow Hub's.
    Downloads are stored with the data sets, or in ``TFHUB_CACHE_DIR``. `trainable` fine-tunes a pretrained embedding;
    our own is always trained. Raises InputError if it is not found.
    """
    if embedding == OWN:
        return MeanOfWords(seed=seed)
    folder = Path(embedding).expanduser()
    if "://" in embedding:
        os.environ.setdefault("TFHUB_CACHE_DIR", str(data_dir() / "hub"))
        try:
            folder = Path(hub.resolve(embedding))
        except Exception as error:  # network, archive or disk errors
            raise InputError(
                f"{embedding} cannot be downloaded: {getattr(error, 'reason', None) or error}. Without a network, give "
                f"the folder of a SavedModel that was downloaded and unpacked earlier, or use --embedding {OWN}."
            ) from error
    if not (folder / "saved_model.pb").exists():
        raise InputError(
            f"{folder} is not the folder of a SavedModel: it has no saved_model.pb. Unpack the "
            "archive, and name the folder that this file is in."
        )
    return hub.KerasLayer(str(folder), input_shape=[], dtype=tf.string, trainable=trainable)
