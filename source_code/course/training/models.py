"""The course's two networks for 32×32 colour images, and batch norm over all ranks."""

import horovod.tensorflow as hvd
import tensorflow as tf
from tensorflow.keras import layers

from course.training.options import MODELS
from course.training.recipes import SettingError

# Of batch norm's moving statistics, which serve evaluation only. They must follow weights that a
# large batch changes much in few steps: Keras' 0.99 looks back over a hundred, this over three.
MOMENTUM = 0.7
NORM_GROUPS = 32  # of group norm: Wu and He 2018, section 4


class _SyncBatchNormalization(hvd.SyncBatchNormalization):
    """Horovod's layer without what it does for TensorFlow 1, which makes Keras warn."""

    def call(self, *args, **kwargs):
        return layers.BatchNormalization.call(self, *args, **kwargs)


class _Layers:
    """Makes convolutions and norms whose first values depend on the seed and their place only.

    Every layer has its own seed, so that a network with batch norm starts from the same
    convolutions as one without it, on every rank and whatever was built before.
    """

    def __init__(self, seed, norm, sync_norm):
        self.seed, self.norm, self.sync_norm, self.made = seed, norm, sync_norm, 0

    def start(self):
        """Return an initializer of He et al. 2015: normal, variance 2 / fan-in."""
        self.made += 1
        return tf.keras.initializers.HeNormal(seed=1000 * self.seed + self.made)

    def conv(self, x, filters, size, strides=1, padding="same"):
        # A norm subtracts the mean, and any bias before it with it.
        bias = self.norm == "none"
        return layers.Conv2D(filters, size, strides, padding, use_bias=bias, kernel_initializer=self.start())(x)

    def normalise(self, x):
        if self.norm == "none":
            return x
        if self.norm == "group":
            return layers.GroupNormalization(NORM_GROUPS)(x)
        if not self.sync_norm:
            return layers.BatchNormalization(momentum=MOMENTUM, epsilon=1e-5)(x)
        # A name each: Horovod's layer calls all of them the same.
        name = f"sync_batch_normalization_{self.made}"
        return _SyncBatchNormalization(momentum=MOMENTUM, epsilon=1e-5, name=name)(x)

    def dense(self, x, units):
        # Logits in float32 also under mixed precision: the loss needs the digits.
        return layers.Dense(units, kernel_initializer=self.start(), dtype="float32")(x)


def _cnn(x, make, classes):
    """Four 3×3 convolutions (32, 64, 128, 128), about 250,000 parameters."""
    for index, filters in enumerate((32, 64, 128, 128)):
        x = make.conv(x, filters, 3)
        if index < 3:
            # Before the norm: ReLU commutes with the maximum, and a quarter is left to normalise.
            x = layers.MaxPool2D()(x)
        x = layers.ReLU()(make.normalise(x))
    return make.dense(layers.GlobalAveragePooling2D()(x), classes)


def _resnet(x, make, classes):
    """A stem of 7×7/2 and 3×3/2, then two bottleneck blocks (He et al. 2016, figure 5 right)."""
    x = make.conv(layers.ZeroPadding2D(3)(x), 64, 7, 2, "valid")
    x = layers.ReLU()(make.normalise(x))
    x = layers.MaxPool2D(3, 2)(x)
    for filters, stride in (((64, 64, 256), 1), ((128, 128, 512), 2)):
        x = _bottleneck(x, make, filters, stride)
    x = layers.AveragePooling2D(2, padding="same")(x)
    return make.dense(layers.Flatten()(x), classes)


def _bottleneck(x, make, filters, stride):
    inner, middle, outer = filters
    if stride > 1:
        # What 1×1 convolutions with a stride read. oneDNN takes twice as long for these as for both in two steps.
        x = layers.MaxPool2D(1, stride)(x)
    y = layers.ReLU()(make.normalise(make.conv(x, inner, 1, padding="valid")))
    y = layers.ReLU()(make.normalise(make.conv(y, middle, 3)))
    y = make.normalise(make.conv(y, outer, 1, padding="valid"))
    shortcut = make.normalise(make.conv(x, outer, 1, padding="valid"))
    return layers.ReLU()(layers.Add()([y, shortcut]))


MAKERS = dict(zip(MODELS, (_cnn, _resnet), strict=True))


def build(name, *, norm="none", sync_norm=False, seed=0, classes=10):
    """Build one of `MODELS`: float32 ``[batch, 32, 32, 3]`` to float32 logits ``[batch, classes]``.

    The `seed` decides the initial weights, the same on every rank. The `norm` is "none", "batch" or "group". Group norm
    looks at one sample at a time, so that a batch split among devices gives what the whole batch gives; batch norm does
    not, unless it takes its statistics over all ranks (`sync_norm`, Horovod's layer).
    """
    if name not in MODELS:
        raise SettingError(f"there is no model {name!r}; the models are: {', '.join(MODELS)}")
    if sync_norm and norm != "batch":
        raise SettingError("synchronous batch norm (--sync-bn) in a recipe without batch norm")
    images = layers.Input((32, 32, 3))
    logits = MAKERS[name](images, _Layers(seed, norm, sync_norm), classes)
    return tf.keras.Model(images, logits, name=name)


def recomputing(model, images):
    """Return a function that sets batch norms' moving statistics to those of some images; None without batch norm.

    All layers look at the same images, float32 ``[n, 32, 32, 3]``, in one pass: so statistics belong to the weights
    of this moment, and depend neither on the batch that training normalises over nor on how far back an average looks
    (Wu and Johnson 2021, "Rethinking 'Batch' in BatchNorm", arXiv:2105.07576, section 3).
    """
    norms = [layer for layer in model.layers if isinstance(layer, layers.BatchNormalization)]
    if not norms:
        return None

    @tf.function(autograph=False)
    def recompute():
        for norm in norms:
            norm.momentum = 0.0  # read while the graph is built: the average is of these images alone
        model(images, training=True)
        for norm in norms:
            norm.momentum = MOMENTUM

    return recompute
