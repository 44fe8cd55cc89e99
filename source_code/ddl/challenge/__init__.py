"""The challenge: reach a held-out accuracy with fewer samples, in less time, and be believed.

``from ddl import challenge`` gives what a lesson needs. A submission is built into graphs by a process of its own
(`build`), trained by ranks that run the course's Python only (``train_submission.py``), and judged here, where the
labels are.
"""

from importlib import import_module

# No public name is a module's name: importing the module would put it in the name's place.
_HOME = {
    "RULES": "rules",
    "TARGET": "rules",
    "run": "attempt",
    "score": "scoring",
    "board": "standings",
    "attempts": "standings",
    "submit": "handin",
}

__all__ = list(_HOME)


def __getattr__(name):
    if name in _HOME:
        return getattr(import_module(f"ddl.challenge.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ddl.challenge' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
