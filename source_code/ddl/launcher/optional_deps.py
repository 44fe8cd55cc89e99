"""Packages that some scripts use and the course does not install."""

from importlib.util import find_spec

NO_TORCH = "PyTorch is not installed. The course doesn't need it; `make lab TORCH=1` installs it."


def has_torch() -> bool:
    """Return whether PyTorch is installed; if not, print how to install it."""
    found = find_spec("torch") is not None
    if not found:
        print(NO_TORCH)
    return found
