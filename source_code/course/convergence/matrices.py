"""Eigenvalues and trace of a symmetric matrix from matrix-vector products."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Apply = Callable[[np.ndarray], np.ndarray]  # a symmetric matrix, as the function from a vector to its product
BREAKDOWN = 1e-6  # remainders this small relative to the largest eigenvalue are rounding


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error."""

    mean: float
    error: float


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Result of `lanczos` for a symmetric matrix H.

    `values` are the largest eigenvalues in descending order, float64 ``[count]``, and `residuals` are their ``|Hv −
    λv|``: an eigenvalue of H lies within it, and far closer to one that is well separated, within residual² / distance
    to the next. Their `vectors`, float64 ``[count, weights]``, have length 1. `lowest` is the smallest Ritz value, at
    least as large as the smallest eigenvalue. For the orthonormal vectors q of the `basis`, float64 ``[iterations,
    weights]``, the `diagonal` has ``qᵀHq``, float64 ``[iterations]``.
    """

    values: np.ndarray
    residuals: np.ndarray
    vectors: np.ndarray
    lowest: float
    diagonal: np.ndarray
    basis: np.ndarray

    @property
    def iterations(self) -> int:
        return len(self.diagonal)

    def figures(self) -> dict:
        """Return a summary for a record."""
        return {
            "eigenvalues": self.values.tolist(),
            "residuals": self.residuals.tolist(),
            "lowest": self.lowest,
            "iterations": self.iterations,
        }


def lanczos(
    apply: Apply, size: int, iterations: int = 16, count: int = 1, tolerance: float = 0.01, seed: int = 0
) -> Spectrum:
    """Return the largest eigenvalues of a symmetric matrix (Lanczos 1950; Golub and Van Loan 2013, section 10.1).

    Every new vector is orthogonalized twice against all previous ones, because otherwise finite precision creates
    copies of eigenvalues. The random start depends only on the seed.

    It takes at most `iterations` products; fewer if the residuals of the `count` largest eigenvalues (not the largest
    in magnitude) are below `tolerance`, a share of the largest.
    """
    generator = np.random.default_rng(seed)
    vector = generator.normal(size=size)
    basis, diagonal, beside = [vector / np.linalg.norm(vector)], [], []
    for left in reversed(range(min(iterations, size))):
        product = np.asarray(apply(basis[-1]), np.float64)
        diagonal.append(float(basis[-1] @ product))
        rows = np.array(basis)
        for _ in range(2):
            product = product - rows.T @ (rows @ product)
        remainder = float(np.linalg.norm(product))
        ritz, small = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
        residuals = remainder * np.abs(small[-1])
        largest = float(np.abs(ritz).max())
        converged = len(diagonal) >= count and residuals[-count:].max() <= tolerance * abs(ritz[-1])
        if not left or converged or remainder <= BREAKDOWN * largest:
            break
        beside.append(remainder)
        basis.append(product / remainder)
    chosen = slice(None, -count - 1, -1)
    return Spectrum(
        ritz[chosen], residuals[chosen], small.T[chosen] @ rows, float(ritz[0]), np.array(diagonal), np.array(rows)
    )


def trace(apply: Apply, size: int, probes: int = 6, spectrum: Spectrum | None = None, seed: int = 0) -> Estimate:
    """Return the trace of a symmetric matrix, from random vectors of ±1 (Hutchinson 1990).

    With the matrix's `spectrum`, the part in its basis is exact and only the rest is estimated, which reduces the noise
    (Meyer et al. 2021, "Hutch++"). Each of the `probes`, at least 2, takes one product.
    """
    generator = np.random.default_rng(seed)
    basis = np.zeros((0, size)) if spectrum is None else spectrum.basis
    known = 0.0 if spectrum is None else float(spectrum.diagonal.sum())
    found = []
    for _ in range(probes):
        probe = generator.choice((-1.0, 1.0), size)
        probe -= basis.T @ (basis @ probe)
        found.append(probe @ apply(probe))
    return Estimate(known + float(np.mean(found)), float(np.std(found, ddof=1) / math.sqrt(probes)))
