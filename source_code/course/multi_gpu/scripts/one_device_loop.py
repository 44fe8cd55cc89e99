"""Lesson 3's `one_device.py` with a custom training loop: make it distributed instead, if that is what you write.

ddl run --workers 1 one_device_loop.py --data exercise.npz
"""

import argparse

import numpy as np
import tensorflow as tf

from course import initial_weights, report

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="exercise.npz")
parser.add_argument("--batch", type=int, default=480)  # samples in a step
parser.add_argument("--rate", type=float, default=0.02)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--out", default="model.weights.h5")
args = parser.parse_args()

with np.load(args.data) as data:
    x, y = data["x"], data["y"]
batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(args.batch)

model = tf.keras.Sequential([tf.keras.layers.Dense(10, activation="tanh", input_shape=(6,)), tf.keras.layers.Dense(1)])
model.set_weights(initial_weights(model.weights))
optimizer = tf.keras.optimizers.SGD(args.rate)


@tf.function
def step(some_x, some_y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(some_x) - some_y))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for _ in range(args.epochs):
    losses = [step(*batch) for batch in batches]

report(model.weights, tf.reduce_mean(losses), len(x))
model.save_weights(args.out)
