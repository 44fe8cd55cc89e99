"""The course's two networks for 32×32 color images, and batch norm over all ranks."""

import horovod.tensorflow as hvd
import tensorflow as tf
from tensorflow.keras import layers

from course.training.options import MODELS
from course.training.recipes import SettingError

# Momentum of batch norm's moving statistics, used in evaluation only. With large batches, weights change a lot in few
# steps: Keras' 0.99 averages over about a hundred, this over three.
MOMENTUM = 0.7
NORM_GROUPS = 32  # of group norm: Wu and He 2018, section 4


class _SyncBatchNormalization(hvd.SyncBatchNormalization):
    """Horovod's layer without its TensorFlow 1 code, which makes Keras warn."""

    def call(self, *args, **kwargs):
        return layers.BatchNormalization.call(self, *args, **kwargs)


class _Layers:
    """Factory for convolutions and norms whose initial values depend only on the seed and the position.

    Every layer has its own seed, so a network with batch norm starts from the same convolutions as one without, on
    every rank and regardless of what was built before.
    """

    def __init__(self, seed, norm, sync_norm):
        self.seed, self.norm, self.sync_norm, self.made = seed, norm, sync_norm, 0

    def start(self):
        """Return an initializer of He et al. 2015: normal, variance 2 / fan-in."""
        self.made += 1
        return tf.keras.initializers.HeNormal(seed=1000 * self.seed + self.made)

    def conv(self, x, filters, size, strides=1, padding="same"):
        # A norm subtracts the mean, which cancels any bias before it.
        bias = self.norm == "none"
        return layers.Conv2D(filters, size, strides, padding, use_bias=bias, kernel_initializer=self.start())(x)

    def normalize(self, x):
        if self.norm == "none":
            return x
        if self.norm == "group":
            return layers.GroupNormalization(NORM_GROUPS)(x)
        if not self.sync_norm:
            return layers.BatchNormalization(momentum=MOMENTUM, epsilon=1e-5)(x)
        # Unique names, because Horovod's layer gives all of them the same one.
        name = f"sync_batch_normalization_{self.made}"
        return _SyncBatchNormalization(momentum=MOMENTUM, epsilon=1e-5, name=name)(x)

    def dense(self, x, units):
        # Logits stay in float32 in mixed precision: the loss needs the precision.
        return layers.Dense(units, kernel_initializer=self.start(), dtype="float32")(x)


def _cnn(x, make, classes):
    """Four 3×3 convolutions (32, 64, 128, 128), about 250,000 parameters."""
    for index, filters in enumerate((32, 64, 128, 128)):
        x = make.conv(x, filters, 3)
        if index < 3:
            # Pool before the norm: ReLU commutes with the maximum, and only a quarter is left to normalize.
            x = layers.MaxPool2D()(x)
        x = layers.ReLU()(make.normalize(x))
    return make.dense(layers.GlobalAveragePooling2D()(x), classes)


def _resnet(x, make, classes):
    """A stem of 7×7/2 and 3×3/2, then two bottleneck blocks (He et al. 2016, figure 5 right)."""
    x = make.conv(layers.ZeroPadding2D(3)(x), 64, 7, 2, "valid")
    x = layers.ReLU()(make.normalize(x))
    x = layers.MaxPool2D(3, 2)(x)
    for filters, stride in (((64, 64, 256), 1), ((128, 128, 512), 2)):
        x = _bottleneck(x, make, filters, stride)
    x = layers.AveragePooling2D(2, padding="same")(x)
    return make.dense(layers.Flatten()(x), classes)


def _bottleneck(x, make, filters, stride):
    inner, middle, outer = filters
    if stride > 1:
        # The input of strided 1×1 convolutions. In oneDNN, subsampling first takes half as long.
        x = layers.MaxPool2D(1, stride)(x)
    y = layers.ReLU()(make.normalize(make.conv(x, inner, 1, padding="valid")))
    y = layers.ReLU()(make.normalize(make.conv(y, middle, 3)))
    y = make.normalize(make.conv(y, outer, 1, padding="valid"))
    shortcut = make.normalize(make.conv(x, outer, 1, padding="valid"))
    return layers.ReLU()(layers.Add()([y, shortcut]))


MAKERS = dict(zip(MODELS, (_cnn, _resnet), strict=True))


def build(name, *, norm="none", sync_norm=False, seed=0, classes=10):
    """Build one of `MODELS`: float32 ``[batch, 32, 32, 3]`` to float32 logits ``[batch, classes]``.

    The `seed` decides the initial weights, the same on every rank. The `norm` is "none", "batch" or "group". Group norm
    normalizes one sample at a time, so a batch split among devices gives the same result as the whole batch. Batch norm
    does not, unless its statistics cover all ranks (`sync_norm`, Horovod's layer) and all have equally many samples,
    because that layer weighs ranks, not samples.
    """
    if name not in MODELS:
        raise SettingError(f"there is no model {name!r}; the models are: {', '.join(MODELS)}")
    if sync_norm and norm != "batch":
        raise SettingError("synchronous batch norm (--sync-bn) in a recipe without batch norm")
    images = layers.Input((32, 32, 3))
    logits = MAKERS[name](images, _Layers(seed, norm, sync_norm), classes)
    return tf.keras.Model(images, logits, name=name)


def recomputing(model, images):
    """Return a function that computes batch norms' moving statistics from some images; None without batch norm.

    All layers see the same images, float32 ``[n, 32, 32, 3]``, in one pass. So the statistics match the current weights
    and depend neither on the training batch nor on the length of a moving average (Wu and Johnson 2021, "Rethinking
    'Batch' in BatchNorm", arXiv:2105.07576, section 3).
    """
    norms = [layer for layer in model.layers if isinstance(layer, layers.BatchNormalization)]
    if not norms:
        return None

    @tf.function(autograph=False)
    def recompute():
        for norm in norms:
            norm.momentum = 0.0  # read while the graph is built: average these images only
        model(images, training=True)
        for norm in norms:
            norm.momentum = MOMENTUM

    return recompute
