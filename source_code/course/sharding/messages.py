"""Fewer bytes between ranks: of each gradient only the largest values are sent, here on simulated ranks."""

from collections.abc import Callable

import numpy as np

Compress = Callable  # of a gradient, what is left of earlier ones, and k; returns what is sent, and what is left


def largest(gradient: np.ndarray, left: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k values of largest magnitude of what is to be sent, zeros elsewhere; and what is left, ``[n]``."""
    wanted = gradient + left
    sent = np.zeros_like(wanted)
    places = np.argpartition(-np.abs(wanted), k - 1)[:k]
    sent[places] = wanted[places]
    return sent, wanted - sent


def everything(gradient, left, k):
    return gradient, left


def forgetful(compress: Compress) -> Compress:
    """Return the same without error feedback (Seide et al. 2014): what is left is dropped."""
    return lambda gradient, left, k: (compress(gradient, np.zeros_like(left), k)[0], left)


def distance(compress: Compress, ranks: int = 2, numbers: int = 200, steps: int = 1_000, seed: int = 0) -> float:
    """Return how far from the best weights a training on simulated ranks ends: the mean square.

    SGD on a quadratic loss; each rank's gradient has its own noise. Each sends 1 % of its values in a step.
    """
    draw = np.random.default_rng(seed)
    best = 10 * draw.normal(size=numbers) * np.geomspace(1, 0.01, numbers)  # few weights matter most
    weights, left = np.zeros(numbers), np.zeros((ranks, numbers))
    for _ in range(steps):
        total = np.zeros(numbers)
        for rank in range(ranks):
            gradient = weights - best + draw.normal(size=numbers)
            sent, left[rank] = compress(gradient, left[rank], numbers // 100)
            total += sent
        weights -= 0.02 * total / ranks
    return float(np.mean((weights - best) ** 2))
