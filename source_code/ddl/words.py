"""Numbers and names in sentences."""

import re
from collections.abc import Iterable

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name, ``: did you mean 'recipe'?``, or "" where none is like it."""
    import difflib  # which ranks, who import this, don't need

    close = difflib.get_close_matches(name, list(known), 1, 0.7)
    return f": did you mean {close[0]!r}?" if close else ""


def printable(text: str) -> str:
    """Return a text in which a terminal finds nothing to obey: control characters but line ends and tabs are spelt."""
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def plural(count: float, noun: str) -> str:
    """Return a count with its noun: ``1 rank``, ``2 ranks``, ``1,024 ranks``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
