import numpy as np

from course.training.noise import NoiseScale, estimate


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


def test_identical_gradients_have_no_noise():
    noise = NoiseScale(32, 64)
    noise.update(2.0, 2.0)
    assert noise.value == 0
    noise = NoiseScale(32, 64)
    noise.update(3.0, 1.0)  # |G|² comes out negative
    assert noise.value is None
