"""Train on several ranks, with Horovod and Keras' `fit`."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf

from course.data import load

hvd.init()  # 1 initialize
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    mine = gpus[hvd.local_rank() % len(gpus)]  # two ranks may share a GPU
    tf.config.set_visible_devices(mine, "GPU")  # 2 pin

data = load("auto", train_samples=4_000, test_samples=500)
x, y = data.train_images / 255, data.train_labels
x, y = x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()]  # 3 shard
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
optimizer = tf.keras.optimizers.SGD(0.005 * hvd.size(), 0.9)  # 4 scale
optimizer = hvd.DistributedOptimizer(optimizer)  # 5 wrap
model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.set_weights([hvd.broadcast(weight, 0) for weight in model.get_weights()])  # 6 broadcast

average = hvd.callbacks.MetricAverageCallback()  # metrics of all ranks
model.fit(dataset, epochs=3, verbose=2 if hvd.rank() == 0 else 0, callbacks=[average])
if hvd.rank() == 0:  # one writer
    model.save_weights("model.weights.h5")
