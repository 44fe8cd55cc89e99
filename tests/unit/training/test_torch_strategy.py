"""PyTorch's network is Keras': the same numbers from the same weights and pictures."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow  # the extra is installed for the full run only
torch = pytest.importorskip("torch")

from ddl.training import models
from ddl.training.initial import initial_weights
from ddl.training.torch_strategy import from_keras, losses_and_hits, network, to_keras


@pytest.fixture(scope="module")
def keras():
    return models.build("cnn", norm="group", seed=3)


@pytest.fixture
def ported(keras):
    model = network(10)
    from_keras(model, keras.get_weights())
    return model


def test_another_process_gives_keras_initial_weights(keras):
    theirs = initial_weights(3, 10)
    assert all(np.array_equal(a, b) for a, b in zip(theirs, keras.get_weights(), strict=True))


def test_weights_come_back_as_they_went(keras, ported):
    assert all(np.array_equal(a, b) for a, b in zip(to_keras(ported), keras.get_weights(), strict=True))


def test_kept_weights_are_not_changed_by_later_updates(ported):
    before = to_keras(ported)
    with torch.no_grad():
        for each in ported.parameters():
            each.add_(1)
    assert all(np.array_equal(a + 1, b) for a, b in zip(before, to_keras(ported), strict=True))


def test_the_same_pictures_give_the_same_logits(keras, ported):
    pictures = np.random.default_rng(0).normal(size=(4, 32, 32, 3)).astype(np.float32)
    with torch.no_grad():
        ours = ported(torch.from_numpy(pictures.transpose(0, 3, 1, 2).copy())).numpy()
    theirs = keras(pictures).numpy()
    assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()


def test_losses_and_hits_are_tensorflows():
    from ddl.training import strategy

    logits = np.random.default_rng(1).normal(size=(6, 10)).astype(np.float32)
    labels = np.array([0, 1, 2, 3, 4, int(logits[5].argmax())])
    ours = losses_and_hits(torch.from_numpy(labels), torch.from_numpy(logits))
    theirs = strategy.losses_and_hits(labels.astype(np.int32), logits)
    for one, other in zip(ours, theirs, strict=True):
        assert one.numpy() == pytest.approx(other.numpy(), rel=1e-5)
    assert ours[1][5] == 1
