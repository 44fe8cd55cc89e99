"""Which of the course's two stacks this is, TensorFlow 2.15 or the next one, and whether its Keras is one that works.

Horovod's wrapper needs Keras 2. TensorFlow 2.15 brings it; later ones bring Keras 3, and take Keras 2 from the package
tf_keras where ``TF_USE_LEGACY_KERAS`` is 1. The next stack's environment sets that for every process (ddl-next.pth).
Every rank imports this: the standard library only.
"""

import os
from importlib.util import find_spec

from ddl.errors import CourseError
from ddl.records.machine import versions

VARIABLE = "TF_USE_LEGACY_KERAS"
YES = ("1", "true", "True")  # what TensorFlow takes for a yes


class WrongKeras(CourseError, RuntimeError):
    """``tf.keras`` would be a Keras that Horovod's wrapper does not work with, or none."""


def release(version: str | None) -> tuple[int, int] | None:
    """Return the first two numbers of a version: ``"2.15.1"`` is (2, 15)."""
    numbers = (version or "").split(".")[:2]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 and all(map(str.isdigit, numbers)) else None


def name() -> str:
    """Return ``"default"`` or, from TensorFlow 2.16 on, ``"next"``; where there is no TensorFlow it is the default."""
    return "next" if (release(versions()["tensorflow"]) or (2, 15)) >= (2, 16) else "default"


def wrong_keras() -> str:
    """Say in one sentence what is wrong with this process's Keras; "" if nothing is."""
    wanted, installed = os.environ.get(VARIABLE) in YES, find_spec("tf_keras") is not None
    if name() == "default":
        if wanted and not installed:
            return f"{VARIABLE} is set, and TensorFlow 2.15 then looks for tf_keras, which it does not need: unset it."
        return ""
    if wanted and installed:
        return ""
    how = f"set {VARIABLE}=1" if installed else "`make setup STACK=next` installs tf_keras"
    return (
        "this TensorFlow would take Keras 3, with which Horovod's optimizer raises no error and lets the ranks' "
        f"weights drift apart: {how}."
    )


def require_keras_2() -> None:
    """Raise `WrongKeras` unless ``tf.keras`` is Keras 2 here."""
    if sentence := wrong_keras():
        raise WrongKeras(sentence)
