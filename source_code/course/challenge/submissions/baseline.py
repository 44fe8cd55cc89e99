"""The baseline of the challenge: the course's small network with batch norm, SGD with momentum, warm-up and cosine.

A submission is a file like this one. What it leaves out is taken from here, capitals included: a file of one line,
`PEAK = 2.4`, is a submission. Its functions are traced to TensorFlow graphs once, and the harness trains these.
"""

import math

import tensorflow as tf
from tensorflow.keras import layers

from course.data.augment import augment as flip_and_shift

SAMPLES = 180_224  # pictures that the training takes: four epochs of 45,056; a multiple of 1,024
GHOST_BATCH = 32  # pictures in one pass, which batch norm normalizes over
COMPRESSION = "none"  # of gradients on their way: "none" or "fp16"
PRECISION = "float32"  # or "bfloat16"

EPOCH = 45_056
BASE_RATE = 0.1  # where the warm-up begins
PEAK = 1.6  # the best of lesson 4's grid at 1,024 with a warm-up
WARMUP_EPOCHS = 1


def model():
    """Return a Keras model: pictures, float32 [n, 32, 32, 3] from 0 to 1, to logits, float32 [n, 10]."""
    pictures = layers.Input((32, 32, 3))
    x = layers.Rescaling(255 / 64, -120 / 64)(pictures)  # about zero mean and unit spread
    for index, filters in enumerate((32, 64, 128, 128)):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False, kernel_initializer="he_normal")(x)
        if index < 3:
            x = layers.MaxPool2D()(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.7, epsilon=1e-5)(x))
    x = layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(pictures, layers.Dense(10, kernel_initializer="he_normal", dtype="float32")(x))


def augment(pictures, numbers, epoch, key):
    """Return the pictures of one pass, changed at random.

    `numbers`, int32 [n], name the pictures: each has the same number in all epochs. `epoch`, int32, counts from 0.
    `key`, int32 [2], is another in each pass: what tf.random.stateless_uniform and its like take as seed.
    """
    return flip_and_shift(pictures, key, 0, len(pictures))


def loss(logits, labels):
    """Return the loss of each picture, float32 [n]; labels are int32 [n]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def optimizer():
    """Return a Keras optimizer; the harness gives it the averaged gradients of each step."""
    return tf.keras.optimizers.SGD(BASE_RATE, momentum=0.9, nesterov=True)


def schedule(done):
    """Return the learning rate; `done` is the part of SAMPLES that is trained, from 0 to 1."""
    epochs = SAMPLES / EPOCH
    warmup = min(WARMUP_EPOCHS, epochs / 2) / epochs
    climb = BASE_RATE + (PEAK - BASE_RATE) * done / warmup
    decay = PEAK * (1 + tf.cos(math.pi * (done - warmup) / (1 - warmup))) / 2
    return tf.where(done < warmup, climb, decay)


# Two more are possible, and the baseline has neither:
#
# def prepare(model, pictures): before the first step, with 1,024 training pictures without labels; they count
# def finish(model, optimizer): after the last step, such as to put averaged weights into the model
