"""The reference of the challenge: what the field knows about short trainings, each trick with its source.

Each is a capital below, so that a copy of this file with one line changed is the reference without it. Sources:
[airbench] K. Jordan 2024, "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv:2404.00498, with its code at
github.com/KellerJordan/cifar10-airbench; [Page] D. Page 2018-19, "How to train your ResNet", myrtle.ai, whose last part
is "Bag of tricks". Where the numbers are not those of a source, they were chosen on the public pictures alone.
"""

import math

import tensorflow as tf
from tensorflow.keras import layers

SAMPLES = 219_136
GHOST_BATCH = 128
PRECISION = "float32"

# The network: a whitening layer, three blocks that halve the sides of pictures, and a maximum over what is left
WIDTHS = (32, 128, 256)  # filters of each block: few where pictures are large, many late [airbench: 64, 256, 256]
CONVOLUTIONS = (1, 2, 2)  # in each block
LOGIT_SCALE = 1 / 9  # small logits at the start, when no class can be sure [Page; airbench's code]
# Whitening: the first layer's filters are those eigenvectors of the covariance of 3 x 3 patches of training pictures
# that have the largest variances, each divided by its standard deviation, and their negatives; they are never trained
# [Page; airbench].
WHITEN = True
# Dirac start: as many filters as a layer has inputs pass these on unchanged; the others are random [airbench].
DIRAC = True
# Faster norm statistics: a mean over the last 20 passes, as weights change fast; Keras's default is 0.99 [airbench].
NORM_MOMENTUM = 0.95

# The pictures, half of which are mirrored
SHIFT = 2  # pixels at most, filled by reflection [airbench]

# The loss
SMOOTHING = 0.2  # of the wanted probability is spread over all classes [Szegedy et al. 2016, arXiv:1512.00567]

# The steps: SGD with Nesterov's momentum [airbench], and Muon for the kernels of convolutions
PEAK = 1.5
MOMENTUM = 0.85
DECAY = 0.0013  # of weights, as a part of their gradient
BIAS_FASTER = 64.0  # times the rate: biases of norms learn faster [Page; airbench]
# Muon: a kernel's step is made nearly orthogonal, so that no direction is learned much faster than another, and the
# kernel keeps its size [K. Jordan et al. 2024, kellerjordan.github.io/posts/muon; airbench's code].
MUON = True
MUON_PEAK = 0.14
MUON_MOMENTUM = 0.6
SCHEDULE = "triangular"  # up for a part of the training, then down in a straight line [Page]; or "cosine"
RISE = 0.1  # that part

SIDE, PATCH, DIRECTIONS = 32, 3, 8  # pixels; eigenvectors


# ---------------------------------------------------------------- the network


def model():
    """Return the network."""
    pictures = layers.Input((SIDE, SIDE, 3))
    x = standard(pictures)
    x = layers.ReLU()(convolution(2 * DIRECTIONS, PATCH, trainable=not WHITEN, name="first")(x))
    for filters, count in zip(WIDTHS, CONVOLUTIONS, strict=True):
        for place in range(count):
            # 8 x 8 become 6 x 6, which can be halved once more.
            x = convolution(filters, 3, "valid" if x.shape[1] == 8 else "same")(x)
            if place == 0:
                x = layers.MaxPool2D()(x)
            x = layers.ReLU()(layers.BatchNormalization(momentum=NORM_MOMENTUM, epsilon=1e-5, scale=False)(x))
    x = layers.GlobalMaxPool2D()(x)
    logits = layers.Dense(10, use_bias=False, kernel_initializer=spread, dtype="float32")(x)
    return tf.keras.Model(pictures, logits * LOGIT_SCALE)


def standard(pictures):
    """Return pictures of about zero mean and unit spread."""
    return (pictures * 255 - 120) / 64


def convolution(filters, side, padding="same", **options):
    return layers.Conv2D(filters, side, padding=padding, use_bias=False, kernel_initializer=start, **options)


def spread(shape, dtype=None):
    """Return uniform numbers within 1/√inputs."""
    most = 1 / math.sqrt(math.prod(shape[:-1]))
    return tf.random.uniform(shape, -most, most)


def start(shape, dtype=None):
    """Return a kernel whose first filters pass on the inputs, if DIRAC."""
    kernel = spread(shape)
    inputs, filters = shape[2:]
    if not DIRAC or inputs == 3:
        return kernel
    center = tf.one_hot(4, 9)  # of the kernel's 3 x 3 places
    unit = tf.reshape(center, [3, 3, 1, 1]) * tf.eye(inputs, filters)
    return tf.where(tf.range(filters) < inputs, unit, kernel)


def whiten(model, pictures):
    """Fill the first layer's kernel."""
    sides, ones = [1, PATCH, PATCH, 1], [1, 1, 1, 1]
    patches = tf.image.extract_patches(standard(pictures), sides, ones, ones, "VALID")
    patches = tf.reshape(patches, [-1, 3 * PATCH**2])
    covariance = tf.matmul(patches, patches, transpose_a=True) / tf.cast(tf.shape(patches)[0], tf.float32)
    variances, directions = tf.linalg.eigh(covariance)
    filters = (directions / tf.sqrt(variances + 5e-4))[:, -DIRECTIONS:]
    kernel = tf.concat([filters, -filters], 1)
    model.get_layer("first").kernel.assign(tf.reshape(kernel, [PATCH, PATCH, 3, -1]))


prepare = whiten if WHITEN else None


# ---------------------------------------------------------------- pictures and loss


def augment(pictures, numbers, epoch, key):
    """Mirror and shift pictures, which both only choose among rows and columns."""
    count = pictures.shape[0]
    flip, down, right = tf.unstack(tf.random.stateless_uniform([3, count, 1], key, alg="philox"))
    line = tf.range(SIDE)
    rows, columns = reflect(line + pixels(down)), reflect(line + pixels(right))
    columns = tf.where(flip < 0.5, SIDE - 1 - columns, columns)
    places = tf.range(count)[:, None, None] * SIDE**2 + rows[:, :, None] * SIDE + columns[:, None, :]
    return tf.gather(tf.reshape(pictures, [-1, 3]), places)


def pixels(draw):
    """Turn numbers from 0 to 1 into whole ones from -SHIFT to SHIFT."""
    return tf.cast(draw * (2 * SHIFT + 1), tf.int32) - SHIFT


def reflect(place):
    """Fold places beyond a picture's sides back into it."""
    place = tf.abs(place)
    return tf.minimum(place, 2 * (SIDE - 1) - place)


def loss(logits, labels):
    wanted = tf.one_hot(labels, 10) * (1 - SMOOTHING) + SMOOTHING / 10
    return tf.nn.softmax_cross_entropy_with_logits(wanted, logits)


# ---------------------------------------------------------------- steps


class Reference(tf.keras.optimizers.SGD):
    """Muon for kernels of convolutions, SGD for the rest."""

    def apply_gradients(self, pairs):
        for (gradient, weight), velocity in zip(pairs, self.momentums, strict=True):
            if MUON and len(weight.shape) == 4:
                velocity.assign(MUON_MOMENTUM * velocity + gradient)
                step = orthogonal(gradient + MUON_MOMENTUM * velocity)
                size = tf.norm(weight) / math.sqrt(weight.shape[-1])  # a norm follows: only the direction counts
                weight.assign(weight / size - self.learning_rate / PEAK * MUON_PEAK * step)
            else:
                faster = BIAS_FASTER if len(weight.shape) == 1 else 1
                gradient += DECAY / faster * weight
                velocity.assign(MOMENTUM * velocity + gradient)
                weight.assign_sub(self.learning_rate * faster * (gradient + MOMENTUM * velocity))
        self.iterations.assign_add(1)


def orthogonal(gradient):
    """Return a kernel's step as a matrix whose singular values are near 1, by three of Newton and Schulz's steps."""
    matrix = tf.reshape(gradient, [-1, gradient.shape[-1]])
    wide = matrix.shape[0] > matrix.shape[1]
    matrix = tf.transpose(matrix) if wide else matrix
    matrix /= tf.norm(matrix) + 1e-7
    for _ in range(3):
        square = tf.matmul(matrix, matrix, transpose_b=True)
        matrix = 3.4445 * matrix + tf.matmul(2.0315 * tf.matmul(square, square) - 4.775 * square, matrix)
    matrix = tf.transpose(matrix) if wide else matrix
    return tf.reshape(matrix, gradient.shape)


def optimizer():
    return Reference(PEAK, momentum=MOMENTUM)


def schedule(done):
    """Return the rate of SGD; Muon's rises and falls with it."""
    rest = (done - RISE) / (1 - RISE)
    down = 1 - rest if SCHEDULE == "triangular" else (1 + tf.cos(math.pi * rest)) / 2
    return PEAK * tf.where(done < RISE, 0.2 + 0.8 * done / RISE, down)
