"""Helpers for sentences: plurals, suggestions for misspelled names, text that is safe to print."""

import re
import sys
from collections.abc import Iterable

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``: did you mean 'recipe'?`` for the known name most like `name`, or "" if none is similar."""
    import difflib  # not needed by ranks, which import this module

    close = difflib.get_close_matches(name, list(known), 1, 0.7)
    return f": did you mean {close[0]!r}?" if close else ""


def printable(text: str) -> str:
    """Return text with its control characters escaped, except line ends and tabs, so that a terminal ignores them."""
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def writable(text: str) -> str:
    """Return text with a replacement for each character that standard output cannot encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def plural(count: float, noun: str) -> str:
    """Return a count with its noun: ``1 rank``, ``2 ranks``, ``1,024 ranks``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith("ch") else "s")
