"""The arithmetic of a graph for a picture, against what one counts by hand."""

import pytest

tf = pytest.importorskip("tensorflow")

from course.challenge.arithmetic import Uncounted, work

KERNEL = tf.constant(1.0, shape=[3, 3, 3, 8])
MATRIX = tf.constant(1.0, shape=[192, 10])
SMALL = tf.constant(1.0, shape=[3, 10])
BY_HAND = tf.constant(1.0, shape=[3, 8])


def counted(function, strict=True):
    spec = tf.TensorSpec([4, 8, 8, 3])
    traced = tf.function(function, autograph=False).get_concrete_function(spec)
    names = [tensor.name for tensor in traced.outputs]
    return work(traced.graph.as_graph_def(), {traced.inputs[0].name: spec}, {}, names, strict).operations


def flat(x):
    return tf.reshape(x, [4, -1])


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: tf.nn.conv2d(x, KERNEL, 1, "SAME"), 8 * 8 * 8 * 27),
        (lambda x: tf.nn.conv2d(x, KERNEL, 2, "SAME"), 4 * 4 * 8 * 27),
        (lambda x: tf.nn.depthwise_conv2d(x, KERNEL, [1, 1, 1, 1], "SAME"), 8 * 8 * 24 * 9),
        (lambda x: tf.matmul(flat(x), MATRIX), 192 * 10),
        (lambda x: tf.matmul(MATRIX, flat(x), transpose_a=True, transpose_b=True), 192 * 10),
        (lambda x: tf.einsum("bi,io->bo", flat(x), MATRIX), 192 * 10),
        (lambda x: tf.einsum("...i,io->...o", x, SMALL), 64 * 3 * 10),
        (lambda x: x[:, ::-1] + 0.0, 2 * 192),  # a slice and a sum
        (lambda x: tf.reduce_sum(x[:, :, :, :, None] * BY_HAND, [1, 2, 3]), 192 + 64 * 24 * 2),  # by hand
        (lambda x: tf.linalg.eigh(tf.matmul(x[0, 0], x[0, 0], transpose_a=True))[0], 2 * 192 + (72 + 3**3) / 4),
        (lambda x: (tf.matmul(flat(x), MATRIX), x)[1], 0),  # leads nowhere
    ],
)
def test_counts(function, wanted):
    assert counted(function) == pytest.approx(wanted, abs=10)


def test_what_cannot_be_counted_is_named_or_counts_nothing():
    def unknown(x):
        return tf.matmul(tf.boolean_mask(flat(x), flat(x)[:, 0] > 0), MATRIX)

    def called(x):
        return tf.cond(x[0, 0, 0, 0] > 0, lambda: tf.matmul(flat(x), MATRIX), lambda: tf.zeros([4, 10]))

    for strict in (True, False):
        for function, why in ((unknown, "known only when it runs"), (called, "how often")):
            with pytest.raises(Uncounted, match=why):
                counted(function, strict)
    assert counted(lambda x: tf.boolean_mask(x, x[:, 0, 0, 0] > 0), strict=False) < 1000
