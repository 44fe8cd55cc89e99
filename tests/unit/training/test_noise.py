import json

import numpy as np
import pytest

from course.training.noise import DECAY, NoiseScale, estimate
from course.training.recipes import SettingError


def squared_norms(generator, gradient, spread, ranks, each):
    """Draw every rank's gradient of `each` samples; return the two squared norms."""
    own = gradient + spread / np.sqrt(each) * generator.normal(size=(ranks, len(gradient)))
    return np.mean(np.sum(own**2, axis=1)), np.sum(np.mean(own, axis=0) ** 2)


def test_the_estimates_are_unbiased():
    for ranks, each in ((2, 32), (8, 16)):
        generator = np.random.default_rng(0)
        gradient, spread = generator.normal(size=100) / 10, 0.8
        norms = (squared_norms(generator, gradient, spread, ranks, each) for _ in range(4000))
        draws = [estimate(*pair, each, ranks * each) for pair in norms]
        gradient_sq, variance = np.mean(draws, axis=0)
        error = np.std(draws, axis=0) / np.sqrt(len(draws))
        assert abs(gradient_sq - np.sum(gradient**2)) < 4 * error[0]
        assert abs(variance - 100 * spread**2) < 4 * error[1]


def test_the_moving_averages_are_corrected_for_their_start():
    noise = NoiseScale(1, 2)
    assert noise.value is noise.variance is noise.gradient_sq is None
    noise.update(5.0, 3.0)
    assert (noise.gradient_sq, noise.variance) == pytest.approx(estimate(5.0, 3.0, 1, 2))
    noise.update(9.0, 6.0)
    (g1, v1), (g2, v2) = estimate(5.0, 3.0, 1, 2), estimate(9.0, 6.0, 1, 2)
    assert noise.gradient_sq == pytest.approx((DECAY * g1 + g2) / (1 + DECAY))
    assert noise.variance == pytest.approx((DECAY * v1 + v2) / (1 + DECAY))
    assert noise.value == pytest.approx(noise.variance / noise.gradient_sq)


def test_identical_gradients_have_no_noise_and_none_has_no_scale():
    noise = NoiseScale(32, 64)
    noise.update(2.0, 2.0)
    assert noise.value == 0
    noise = NoiseScale(32, 64)
    noise.update(3.0, 1.0)  # |G|² comes out negative
    assert noise.value is None
    with pytest.raises(SettingError, match="two ranks or more"):
        NoiseScale(64, 64)


def test_averages_go_on_from_a_state_with_the_batches_of_now():
    whole, half, rest = NoiseScale(32, 64), NoiseScale(32, 64), NoiseScale(16, 64)
    for noise in (whole, half):
        noise.update(5.0, 3.0)
    rest.restore(json.loads(json.dumps(half.state())))
    assert rest.figures() == whole.figures() and rest.batches == (16, 64)
    rest.update(9.0, 4.0)
    assert half.figures() == whole.figures() != rest.figures()
    half.restore(None)
    assert half.figures() == whole.figures()
