"""Numbers in sentences."""

__all__ = ["plural"]


def plural(count: float, noun: str) -> str:
    """Return a count with its noun: ``1 rank``, ``2 ranks``, ``1,024 ranks``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
