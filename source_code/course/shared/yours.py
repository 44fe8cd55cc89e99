"""A reader's own function in place of the course's, once it is right."""

import json
from collections.abc import Callable

import numpy as np


def yours(answer: Callable, ours: Callable, *example) -> Callable:
    """Return the reader's `answer` if it gives what `ours` gives on an example, or else `ours`; print which it is.

    What follows in a lesson then runs the reader's code, and somebody who has not answered yet can still go on.
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
        return np.allclose(np.asarray(one, float), np.asarray(other, float))
    except (TypeError, ValueError):  # no numbers, such as a table of tasks
        return json.dumps(one) == json.dumps(other)
