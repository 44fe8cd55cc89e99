"""The challenge: reach a held-out accuracy in less processor time than the baseline.

A submission is a Python file. ``launch("train_submission.py", file=…)`` trains it on ranks. `score` trains it in a
separate process (`trainer`), measures its time from outside (`clock`), and compares its answers with the private
labels.
"""

from ddl.lazy import lazy_names

_HOME = {"RULES": "rules", "TARGET": "rules", "TARGETS": "rules", "score": "scoring", "board": "standings"}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOME)
