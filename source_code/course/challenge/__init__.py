"""The challenge: reach a held-out accuracy with fewer samples, in less time, and be believed.

``from ddl import challenge`` gives what a lesson needs. A submission is built into graphs by a process of its own
(`build`), trained by ranks that run the course's Python only (``train_submission.py``), and judged here, where the
labels are.
"""

from ddl.lazy import lazy_names

_HOME = {
    "RULES": "rules",
    "TARGET": "rules",
    "run": "attempt",
    "score": "scoring",
    "board": "standings",
    "attempts": "standings",
    "submit": "handin",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOME)
