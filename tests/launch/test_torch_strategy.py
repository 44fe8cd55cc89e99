"""PyTorch's network is Keras': the same numbers from the same weights and pictures."""

import numpy as np
import pytest

from course.training.initial import initial_weights
from helpers import ROOT

pytestmark = pytest.mark.nightly("source_code/strategies/*")  # the extra is installed for the full run only


@pytest.fixture(scope="module")
def ported():
    """The module under test."""
    pytest.importorskip("torch")
    from course.training import torch_strategy

    return torch_strategy


@pytest.fixture(scope="module")
def keras():
    from course.training import models

    return models.build("cnn", norm="group", seed=3)


@pytest.fixture
def model(ported, keras):
    model = ported.network(10)
    ported.from_keras(model, keras.get_weights())
    return model


def test_another_process_gives_keras_initial_weights(keras):
    theirs = initial_weights(3, 10)
    assert all(np.array_equal(a, b) for a, b in zip(theirs, keras.get_weights(), strict=True))


def test_weights_come_back_as_they_went(ported, keras, model):
    assert all(np.array_equal(a, b) for a, b in zip(ported.to_keras(model), keras.get_weights(), strict=True))


def test_kept_weights_are_not_changed_by_later_updates(ported, model):
    before = ported.to_keras(model)
    for each in model.parameters():
        each.data += 1
    assert all(np.array_equal(a + 1, b) for a, b in zip(before, ported.to_keras(model), strict=True))


def test_the_same_pictures_give_the_same_logits(keras, model):
    import torch

    pictures = np.random.default_rng(0).normal(size=(4, 32, 32, 3)).astype(np.float32)
    ours = model(torch.from_numpy(pictures.transpose(0, 3, 1, 2).copy())).detach().numpy()
    theirs = keras(pictures).numpy()
    assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()


def test_losses_and_hits_are_tensorflows(ported):
    import torch

    from course.training import strategy

    logits = np.random.default_rng(1).normal(size=(6, 10)).astype(np.float32)
    labels = np.array([0, 1, 2, 3, 4, int(logits[5].argmax())])
    ours = ported.losses_and_hits(torch.from_numpy(labels), torch.from_numpy(logits))
    theirs = strategy.losses_and_hits(labels.astype(np.int32), logits)
    for one, other in zip(ours, theirs, strict=True):
        assert one.numpy() == pytest.approx(other.numpy(), rel=1e-5)
    assert ours[1][5] == 1


def test_a_bucket_of_ddp_is_as_large_as_the_lesson_says(ported):
    from torch.nn.parallel import distributed

    lesson = (ROOT / "grading/source/3b.Strategies-in-Depth/3b.Strategies-in-Depth.py").read_text()
    assert f"buckets of at most {distributed._DEFAULT_BUCKET_CAP_MB} MiB by default" in lesson
