"""Train on several ranks, with Horovod and a custom loop."""

import horovod.tensorflow as hvd
import tensorflow as tf

from course.data import load

hvd.init()  # 1 initialize
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    mine = gpus[hvd.local_rank() % len(gpus)]  # two ranks may share a GPU
    tf.config.set_visible_devices(mine, "GPU")  # 2 pin

data = load("auto", train_samples=4_000, test_samples=500)
x, y = data.train_images / 255, data.train_labels
dataset = tf.data.Dataset.from_tensor_slices((x, y))
dataset = dataset.shard(hvd.size(), hvd.rank())  # 3 shard
dataset = dataset.shuffle(1_000).batch(32, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu", input_shape=x.shape[1:]),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.005 * hvd.size(), 0.9)  # 4 scale
loss_of = tf.keras.losses.SparseCategoricalCrossentropy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    tape = hvd.DistributedGradientTape(tape)  # 5 wrap
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


hvd.broadcast_variables(model.variables, root_rank=0)  # 6 broadcast
for epoch in range(3):
    losses = [train_step(x, y) for x, y in dataset]
    loss = hvd.allreduce(tf.reduce_mean(losses))  # the mean of all ranks
    if hvd.rank() == 0:  # one writer
        print(f"epoch {epoch + 1}: loss {loss:.3f}")
if hvd.rank() == 0:
    model.save_weights("model.weights.h5")
