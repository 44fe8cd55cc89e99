"""One step of `train_cifar.py`: passes over a rank's samples, an average over ranks, an update."""

import tensorflow as tf

from course.data.augment import normalize
from course.data.samples import on_device
from course.training.horovod_utils import average
from course.training.loop import in_passes


def make_train_step(model, optim, data, settings, part, average=average):
    """Return a function of (sample numbers, step, learning rate, preempted) that trains one step.

    It returns loss, accuracy and preempted (above 0 if any rank is), averaged over ranks,
    and with --noise-scale the squared norms of the gradients of single passes (their average) and
    of the averaged gradient.
    """
    forward_backward = make_pass(model, data, settings)
    weights, passes = model.trainable_variables, settings.backward_passes_per_step

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([part.stop - part.start], tf.int32),
            tf.TensorSpec([], tf.int32),
            tf.TensorSpec([]),
            tf.TensorSpec([]),
        ],
    )
    def train_step(numbers, step, rate, preempted):
        if passes == 1:
            *gradients, metrics = forward_backward(numbers, step, part.start)
        else:
            *gradients, metrics = in_passes(
                lambda some, first: forward_backward(some, step, part.start + first), numbers, passes, weights, 3
            )
        metrics = tf.concat([metrics[:2], [preempted], metrics[2:]], 0)
        # Horovod: average over ranks, all gradients in one message.
        gradients, metrics = average(gradients, metrics, settings.fp16_compression)
        if settings.noise_scale:
            metrics = tf.concat([metrics, [squared_norm(gradients)]], 0)
        optim.learning_rate.assign(rate)
        optim.apply_gradients(zip(gradients, weights))
        return metrics

    return train_step


def make_pass(model, data, settings):
    """Return a function of (sample numbers, step, position in the global batch) for a forward and backward pass.

    It returns the gradients, and loss, accuracy and with --noise-scale the gradients' squared norm, float32 ``[3]``.
    """
    samples, classes = on_device(data.train_images, data.train_labels), len(data.class_names)

    def forward_backward(numbers, step, position):
        if settings.no_augment:
            pictures, target = samples.gather(numbers)
        else:
            pictures, target = samples.augmented(numbers, (settings.seed, step), position, settings.global_batch)
        with tf.GradientTape() as tape:
            logits = model(normalize(pictures), training=True)
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(target, classes), logits))
        hits = tf.reduce_mean(tf.cast(tf.argmax(logits, 1) == tf.cast(target, tf.int64), tf.float32))
        gradients = tape.gradient(loss, model.trainable_variables)
        return [*gradients, tf.stack([loss, hits, squared_norm(gradients) if settings.noise_scale else 0.0])]

    return forward_backward


def squared_norm(tensors):
    return tf.add_n([tf.reduce_sum(tf.square(tensor)) for tensor in tensors])
