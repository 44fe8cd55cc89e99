"""Eigenvalues of a symmetric matrix from matrix-vector products."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from course.training.recipes import SettingError

Apply = Callable[[np.ndarray], np.ndarray]  # a symmetric matrix, as the function from a vector to its product
RESTARTS = 25  # of Lanczos' iteration, at most


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The largest eigenvalues of a symmetric matrix H.

    `values` are in descending order, float64 ``[count]``, and `residuals` are their ``|Hv − λv|``: an eigenvalue of H
    lies within it, and far closer to one that is well separated, within residual² / distance to the next. `products` is
    how often H was applied.
    """

    values: np.ndarray
    residuals: np.ndarray
    products: int

    def figures(self) -> dict:
        """Return a summary for a record."""
        return {"eigenvalues": self.values.tolist(), "residuals": self.residuals.tolist(), "iterations": self.products}


def largest(
    apply: Apply, size: int, iterations: int = 16, count: int = 1, tolerance: float = 0.01, seed: int = 0
) -> Spectrum:
    """Return the `count` largest eigenvalues (not the largest in magnitude) of a symmetric matrix.

    Lanczos' method, restarted after `iterations` products (Golub and Van Loan 2013, section 10.1; scipy's ``eigsh``),
    until eigenvalues are known to `tolerance`, a share of each. The random start depends only on the seed. SettingError
    if that takes more than `RESTARTS` restarts.
    """
    products = 0

    def counted(vector):
        nonlocal products
        products += 1
        return np.asarray(apply(vector), np.float64)

    operator = LinearOperator((size, size), matvec=counted, dtype=np.float64)
    start = np.random.default_rng(seed).normal(size=size)
    vectors_kept = min(size, max(iterations, count + 2))
    try:
        values, vectors = eigsh(
            operator, count, which="LA", v0=start, ncv=vectors_kept, tol=tolerance, maxiter=RESTARTS
        )
    except ArpackNoConvergence:
        raise SettingError(
            f"the largest eigenvalues are not known to a relative accuracy of {tolerance:g} after {products} products: "
            "allow more --iterations, or a larger --tolerance"
        ) from None
    values, vectors = values[::-1], vectors.T[::-1]
    residuals = [np.linalg.norm(counted(vector) - value * vector) for value, vector in zip(values, vectors)]
    return Spectrum(values, np.array(residuals), products)
