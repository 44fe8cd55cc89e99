"""Data sets by name, the generated pictures, and the order in which ranks read them."""

import subprocess
import sys

import numpy as np
import pytest

from course.data import DataError, DataSet, Order, catalog, fetch, is_there, listing, load, shard, synthetic
from course.data.dataset import balanced_subset


@pytest.fixture
def small_whole(monkeypatch):
    """A synthetic data set that is whole with 600 + 200 images, and kept from 100 on."""
    monkeypatch.setattr(synthetic, "WHOLE", {"train": 600, "test": 200})
    monkeypatch.setattr(synthetic, "SMALL", 100)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_shards_are_disjoint_equal_and_cover_the_epoch(size):
    batches = Order(96, 12, seed=3).epoch(0)
    shards = [shard(batches, rank, size) for rank in range(size)]
    assert {part.shape for part in shards} == {(8, 12 // size)}
    assert sorted(np.concatenate([part.ravel() for part in shards])) == list(range(96))
    np.testing.assert_array_equal(np.concatenate(shards, axis=1), batches)


def test_order_resumes_from_any_step():
    order = Order(20, 6, seed=1)  # three steps an epoch
    np.testing.assert_array_equal(order.epoch(2), Order(20, 6, seed=1).epoch(2))
    assert not any(np.array_equal(order.epoch(2), Order(20, 6, seed).epoch(epoch)) for seed, epoch in ((1, 1), (2, 2)))
    whole = np.concatenate([order.epoch(0), order.epoch(1), order.epoch(2)])
    for first in (0, 2, 3):
        steps, batches = zip(*order.batches(first, 8))
        assert steps == tuple(range(first, 8))
        np.testing.assert_array_equal(batches, whole[first:8])


def test_subset_is_balanced_and_nested():
    labels = np.random.default_rng(0).integers(0, 10, 1000).astype(np.int32)
    large, small = balanced_subset(labels, 500, 1), balanced_subset(labels, 105, 1)
    np.testing.assert_array_equal(large[:105], small)
    assert len(set(large)) == 500 and np.ptp(np.bincount(labels[small])) <= 1
    assert not np.array_equal(small, balanced_subset(labels, 105, 2))


def test_validation_images_are_not_trained_on(monkeypatch):
    # Each image encodes its number: 100 for training, 40 for testing.
    def numbered(first, count):
        images = np.zeros((count, 32, 32, 3), np.uint8)
        images[:, 0, 0, 0] = np.arange(first, first + count)
        return images, (np.arange(count) % 10).astype(np.int32)

    whole = DataSet("cifar10", "made", *numbered(0, 100), *numbered(200, 40), tuple("0123456789"))
    monkeypatch.setattr(catalog.REAL["cifar10"], "read", lambda folder: whole)
    monkeypatch.setattr(catalog, "VALIDATION_SAMPLES", 20)

    def pictures(images):
        return images[:, 0, 0, 0].tolist()

    chosen = load("cifar10", held_out="validation")
    assert (chosen.train_samples, chosen.test_samples) == (80, 20) and chosen.describe()["held_out"] == "validation"
    assert sorted(pictures(chosen.train_images) + pictures(chosen.test_images)) == list(range(100))
    assert np.bincount(chosen.test_labels).max() - np.bincount(chosen.test_labels, minlength=10).min() <= 1
    for samples in (30, 80):  # what is judged on test pictures trains on the very same
        judged = load("cifar10", train_samples=samples)
        assert min(pictures(judged.test_images)) == 200
        part = load("cifar10", held_out="validation", train_samples=samples, test_samples=5)
        assert pictures(part.train_images) == pictures(judged.train_images) == pictures(chosen.train_images)[:samples]
        assert pictures(part.test_images) == pictures(chosen.test_images)[:5]
    for options, words in (
        ({"train_samples": 81}, "has 80 train samples: 81"),
        ({"test_samples": 21}, "has 20 validation samples: 21"),
        ({"held_out": "train"}, "one of test, validation"),
    ):
        with pytest.raises(DataError, match=words):
            load("cifar10", **{"held_out": "validation", **options})


@pytest.mark.slow("source_code/course/data/*")
def test_generated_images_are_reproducible():
    images, labels = synthetic.generate("train", 1200, seed=4)
    again, few = synthetic.generate("train", 1200, seed=4), synthetic.generate("train", 730, seed=4)
    np.testing.assert_array_equal(images, again[0])
    np.testing.assert_array_equal(images[:730], few[0])
    np.testing.assert_array_equal(labels[:730], few[1])
    assert images.dtype == np.uint8 and images.shape == (1200, 32, 32, 3)
    assert np.bincount(labels[:1000]).tolist() == [100] * 10
    for part, seed in (("test", 4), ("train", 5)):
        assert not np.array_equal(images[:500], synthetic.generate(part, 500, seed)[0])


@pytest.mark.slow("source_code/course/data/*")
def test_generated_set_is_stored_and_listed(folder, small_whole):
    cifar, generated, *_ = listing()
    assert not cifar.is_here and "ddl data fetch cifar10" in str(cifar)
    assert not generated.is_here and "generated on first use" in str(generated)
    direct = load("synthetic", train_samples=50, test_samples=20)
    assert not is_there("synthetic")  # So few are not worth keeping.
    lines = []
    fetch("synthetic", lines.append)
    assert lines[0].startswith("synthetic: generating 800 images") and is_there("synthetic")
    whole = load("synthetic")
    assert isinstance(whole.train_images, np.memmap) and whole.train_samples == 600
    np.testing.assert_array_equal(whole.train_images[:50], direct.train_images)
    assert load("synthetic", test_samples=7).test_samples == 7
    for part, samples in (("train", 601), ("test", 0)):
        with pytest.raises(DataError, match=f"{part} samples: {samples}"):
            load("synthetic", **{f"{part}_samples": samples})
    generated = listing()[1]
    assert generated.is_here and generated.samples == 800
    assert generated.size_bytes == synthetic.path(folder).stat().st_size > 800 * 3072


RANK = """
from course.data import load, synthetic

synthetic.WHOLE, synthetic.SMALL, make = {"train": 600, "test": 200}, 100, synthetic.make
synthetic.make = lambda *where: print("made") or make(*where)
print(load("synthetic").train_samples)
"""


@pytest.mark.slow("source_code/course/data/*")
def test_ranks_that_start_together_generate_once():
    ranks = [subprocess.Popen([sys.executable, "-c", RANK], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = " ".join(rank.communicate()[0] for rank in ranks).split()
    assert sorted(said) == [*["600"] * 4, "made"]
