"""What the course can use and does not install by itself."""

from importlib.util import find_spec

NO_TORCH = "PyTorch is an extra of this course, and not installed here: `make lab TORCH=1` installs it."


def has_torch() -> bool:
    """Whether PyTorch is installed; where it is not, say in one sentence how to get it."""
    found = find_spec("torch") is not None
    if not found:
        print(NO_TORCH)
    return found
