"""Samples as a GPU keeps them, against the processor's: the same images, by operations that a GPU has."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from course.data.augment import augment, normalize
from course.data.samples import InGpuMemory, InHostMemory, on_device

# Data that GPU kernels of TensorFlow 2.15.1 leave in the host's memory (HostMemory arguments) or cannot take, by the
# registry of its wheel for GPUs (tensorflow.python.framework.kernels).
ON_HOST = dict.fromkeys(
    "AddV2 Sub Mul FloorDiv FloorMod Abs Neg Minimum Maximum Equal LessEqual Pack Range Reshape StridedSlice".split(),
    "int32",
) | {"GatherV2": "uint8"}
SIZE, BATCH = 300, 64
DRAW = np.random.default_rng(0)
IMAGES = DRAW.integers(0, 256, (SIZE, 32, 32, 3), np.uint8)
LABELS = DRAW.integers(0, 10, SIZE, np.int32)
NUMBERS = DRAW.permutation(SIZE)[:BATCH].astype(np.int32)


def test_both_memories_give_the_same_samples():
    host, gpu = InHostMemory(IMAGES, LABELS), InGpuMemory(IMAGES, LABELS)
    for step in range(3):
        for function in ("gather", "augmented"):
            how = () if function == "gather" else ((7, step), BATCH, 3 * BATCH)
            (images, labels), (same, same_labels) = (getattr(each, function)(NUMBERS, *how) for each in (host, gpu))
            assert images.dtype == same.dtype == tf.uint8
            np.testing.assert_array_equal(images, same)
            np.testing.assert_array_equal(labels, same_labels)
    np.testing.assert_array_equal(images, augment(IMAGES[NUMBERS], (7, 2), BATCH, 3 * BATCH))


def test_every_byte_survives_in_a_word():
    bytes_ = np.resize(np.arange(256, dtype=np.uint8), (1, 32, 32, 3))
    np.testing.assert_array_equal(InGpuMemory(bytes_, LABELS[:1]).gather([0])[0], bytes_)


def test_a_machine_without_gpus_keeps_samples_in_host_memory():
    assert isinstance(on_device(IMAGES, LABELS), InHostMemory)


def graph_of(memory):
    """Return the operations of a step's input, as `train_cifar.py` has them."""
    samples = memory(IMAGES, LABELS)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([BATCH], tf.int32), tf.TensorSpec([], tf.int32)])
    def images(numbers, step):
        pictures, labels = samples.augmented(numbers, (7, step), 0, BATCH)
        return normalize(pictures), tf.one_hot(labels, 10)

    return images.get_concrete_function().graph.get_operations()


def held_on_host(operations):
    """Return the operations on data that a GPU's kernels cannot take, without those meant for the processor."""
    ours = [each for each in operations if "CPU" not in each.device and each.inputs and each.type != "Shape"]
    # The first input and output are data; others may be sizes, which belong in the host's memory.
    return [
        each.name
        for each in ours
        if ON_HOST.get(each.type) in {tensor.dtype.base_dtype.name for tensor in (each.inputs[0], *each.outputs)}
    ]


def test_a_gpu_has_kernels_for_all_of_its_input():
    assert held_on_host(graph_of(InHostMemory))  # what the check is for
    assert held_on_host(graph_of(InGpuMemory)) == []
