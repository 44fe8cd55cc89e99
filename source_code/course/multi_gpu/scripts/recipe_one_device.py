"""Train on one device, with Keras' `fit`: what the other recipes start from."""

import tensorflow as tf

from course.data import load

data = load("auto", train_samples=4_000, test_samples=500)
x, y = data.train_images / 255, data.train_labels
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(32, drop_remainder=True)
dataset = dataset.prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu", input_shape=x.shape[1:]),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.005, 0.9)
model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])

model.fit(dataset, epochs=3, verbose=2)
model.save_weights("model.weights.h5")
