"""Data and initial weights of lesson 6's networks, in NumPy, so that all libraries share them."""

import math

import numpy as np

CHARACTERS = "0123456789+=; "


def text(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return sums of two numbers below 100, as indices into `CHARACTERS`: int32 of this shape."""
    draw, characters = np.random.default_rng(seed), math.prod(shape)
    terms = draw.integers(0, 100, (characters // 6 + 1, 2))
    written = "".join(f"{a}+{b}={a + b};" for a, b in terms.tolist())
    return np.array([CHARACTERS.index(character) for character in written[:characters]], np.int32).reshape(shape)


def initial(shapes: tuple[tuple[int, int], ...], number: int, seed: int) -> list[np.ndarray]:
    """Return the initial weights of layer `number`, float32, from its number and the seed."""
    draw = np.random.default_rng((seed, number))
    return [draw.standard_normal(shape, np.float32) / np.float32(shape[0] ** 0.5) for shape in shapes]
