"""Tensors that are an array's own memory."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from course.data import store
from course.data.tensors import constant


@pytest.fixture
def mapped(tmp_path):
    images = np.arange(4 * 6, dtype=np.uint8).reshape(4, 6)
    store.write(tmp_path / "a.npy", version=1, images=images, labels=np.arange(4, dtype=np.int32))
    return store.read(tmp_path / "a.npy")


def address(tensor):
    return np.asarray(memoryview(tensor)).ctypes.data


@pytest.mark.parametrize("name", ["images", "labels"])
def test_a_mapped_array_becomes_a_tensor_without_a_copy(mapped, name):
    tensor = constant(mapped[name])
    np.testing.assert_array_equal(tensor, mapped[name])
    assert tensor.dtype == mapped[name].dtype and address(tensor) == mapped[name].ctypes.data
    assert not mapped[name].flags.writeable
    np.testing.assert_array_equal(constant(mapped[name][:3]), mapped[name][:3])  # a part of the samples


def test_a_tensor_keeps_its_array_alive():
    array = np.zeros(2**20, np.uint8)
    array = array[-array.ctypes.data % store.ALIGNMENT :][: 2**19]
    array[:] = 7
    tensor, place = constant(array), array.ctypes.data
    assert address(tensor) == place
    del array
    gc.collect()
    others = [np.full(2**20, 9, np.uint8) for _ in range(20)]
    assert tf.reduce_all(tensor == 7) and len(others) == 20
