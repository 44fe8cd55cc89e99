"""Replacement of the course's functions by the reader's own, once they are right."""

import json
from collections.abc import Callable

import numpy as np


def working(answer: Callable, ours: Callable, *example) -> Callable:
    """Return the reader's `answer` if it gives what `ours` gives on an example, or else `ours`; print which it is.

    The rest of the lesson then runs the reader's code. Readers without an answer can continue with the course's.
    """
    try:
        right = _alike(answer(*example), ours(*example))
        reason = "its result differs from the course's"
    except Exception as error:  # the reader's code may raise anything
        right, reason = False, f"it raises {type(error).__name__}"
    if right:
        print(f"From here on, your {answer.__name__} computes.")
        return answer
    print(f"From here on, the course's function computes in place of your {answer.__name__}: {reason}.")
    return ours


def _alike(one, other):
    try:
        return np.allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-3)
    except (TypeError, ValueError):  # no numbers, such as a table of tasks
        return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
