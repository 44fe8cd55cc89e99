"""Checks for the three repairs of lesson 3f, by what each rank gets from them."""

import numpy as np

from course.grader.launches import launched, require

CLOSE = 2e-3  # relative: half precision rounds to 5e-4
LARGEST = 60_000.0  # of a gradient; half precision ends at 65,504


def counts(file: str, seed: int, ranks: int = 2) -> None:
    """Check an average of int32 counts; AssertionError if a rank's result is not their mean."""
    draw = np.random.default_rng(seed)
    given = draw.integers(-9, 9, size=(ranks, 5)).astype(np.int32)
    given[-1] += given.sum(0) % ranks == 0  # a mean that is not whole
    _compare(file, list(given), given.mean(0))


def compressed(file: str, seed: int, ranks: int = 2) -> None:
    """Check an average of large gradients; AssertionError if it overflows, is not the mean, or is not rounded."""
    draw = np.random.default_rng(seed)
    given = draw.uniform(0.5, 1, size=(ranks, 200)).astype(np.float32) * np.float32(LARGEST)
    found = _compare(file, list(given), given.mean(0))
    exact = np.isclose(found, given.mean(0), rtol=1e-6, atol=0).mean()
    require(exact < 0.5, f"{file} on {ranks} ranks: the result has 24 bits, so its messages were not in half precision")


def moments(file: str, seed: int, ranks: int = 2) -> None:
    """Check a mean over all ranks' samples, of which they have different numbers; AssertionError if it is another."""
    draw = np.random.default_rng(seed)
    shards = [draw.normal(5 * rank, 1, size=(1 + 3 * rank, 4)).astype(np.float32) for rank in range(ranks)]
    _compare(file, shards, np.concatenate(shards).mean(0))


def _compare(file, shards, wanted):
    """Launch `repaired` with a shard for each rank, compare all ranks' results, and return rank 0's."""
    given = {f"shard{rank}": shard for rank, shard in enumerate(shards)}
    ranks = launched(file, len(shards), {"given.npz": given}, program="course.multi_gpu.repairs_harness")
    for rank, reported in enumerate(ranks):
        found, where = reported.arrays["found"], f"{file} on {len(shards)} ranks, rank {rank}"
        require(found.shape == wanted.shape, f"{where}: the result has shape {found.shape}, not {wanted.shape}")
        off = np.argmax(np.abs(found - wanted))
        require(
            np.allclose(found, wanted, rtol=CLOSE, atol=CLOSE),
            f"{where}: the result is {found[off]:.5g} where the ranks' samples give {wanted[off]:.5g}",
        )
    return ranks[0].arrays["found"]
