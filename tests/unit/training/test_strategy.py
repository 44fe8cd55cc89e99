"""Shared parts of the strategies: options and the order of samples."""

import pytest

from course.data import Order
from course.training import options
from course.training.strategy import Experiment

SMALL = "--data-set synthetic --train-samples 70 --test-samples 10 --global-batch 16 --epochs 1.5".split()


def prepared(*arguments, replicas=None, **places):
    return Experiment(options.strategy("", replicas, [*SMALL, *arguments]), **places)


def test_steps_epochs_and_a_rate_that_grows_with_the_batch():
    ours = prepared("--learning-rate", "0.1")
    assert ours.rate(64) == pytest.approx(0.1) and ours.rate(16) == pytest.approx(0.025)
    assert (ours.steps_per_epoch, ours.steps, ours.epochs) == (4, 6, 2)
    assert [done for done in range(1, 7) if ours.epoch_ends(done)] == [4, 6]
    assert (prepared("--steps", "9").steps, prepared("--steps", "9").epochs) == (9, 3)


def test_a_batch_that_does_not_split_evenly_is_refused(capsys):
    for split in ({"ranks": 3}, {"replicas": 3}, {"ranks": 2, "replicas": 16}):
        with pytest.raises(SystemExit) as end:
            prepared(**split)
        words = f"{end.value} {capsys.readouterr().err}"
        assert "cannot be split evenly over" in words or "does not split evenly over" in words
    assert prepared(ranks=3, splits=False).replicas == 3  # each takes whole batches


@pytest.fixture(scope="module")
def tf():
    return pytest.importorskip("tensorflow")


def test_ranks_divide_every_batch_of_the_order(tf):
    ours = prepared("--seed", "3")
    order = Order(70, 16, 3)
    rows = [*order.epoch(0), *order.epoch(1)[:2]]
    labels = [batch.numpy().tolist() for _, batch in ours.dataset()]
    assert labels == [ours.data.train_labels[row].tolist() for row in rows]
    pictures, _ = next(iter(ours.dataset()))
    assert pictures.dtype == tf.float32 and pictures.shape == (16, 32, 32, 3)
    parts = [[part.numpy().tolist() for _, part in ours.dataset(rank, 2)] for rank in range(2)]
    assert [first + second for first, second in zip(*parts, strict=True)] == labels
    assert {len(part) for each in parts for part in each} == {8}


def test_no_thread_tunes_batches_whose_end_would_wait_for_it(tf, monkeypatch):
    made = [prepared().dataset()]
    from tensorflow.python.data.ops import multi_device_iterator_ops as devices

    on_device = devices._create_device_dataset
    monkeypatch.setattr(devices, "_create_device_dataset", lambda *given: made.append(on_device(*given)) or made[-1])
    next(iter(tf.distribute.MirroredStrategy(["CPU:0"]).experimental_distribute_dataset(made[0])))
    assert [dataset.options().autotune.enabled for dataset in made] == [False, False]
