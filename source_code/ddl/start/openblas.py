"""The number of threads of an OpenBLAS that is loaded already."""

import ctypes
from collections.abc import Callable
from pathlib import Path


def set_blas_threads(threads: int) -> None:
    """Give every loaded OpenBLAS this number of threads."""
    for function in blas_functions("set_num_threads"):
        function(threads)


def blas_functions(name: str) -> list[Callable]:
    """Return the function of that name from each loaded OpenBLAS; builds add prefixes and suffixes to it."""
    variants = [f"{prefix}openblas_{name}{suffix}" for prefix in ("", "scipy_") for suffix in ("", "64_", "_64")]
    lines = Path("/proc/self/maps").read_text().splitlines()
    libraries = map(ctypes.CDLL, sorted({line.split(maxsplit=5)[5].strip() for line in lines if "openblas" in line}))
    return [getattr(library, variant) for library in libraries for variant in variants if hasattr(library, variant)]
