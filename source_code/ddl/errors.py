"""User-facing errors: each message states the problem and the fix in one sentence."""

from typing import Any


def _restored(kind: type[BaseException], arguments: tuple, fields: dict[str, Any]) -> BaseException:
    """Return an exception as it was, without its ``__init__``, which takes something other than the message."""
    error = kind.__new__(kind)
    error.args = arguments
    vars(error).update(fields)
    return error


class OneLine:
    """Mixin for exceptions that a notebook shows as one line, without this package's frames."""

    args: tuple

    def __reduce__(self) -> tuple:  # a pool of processes would wait forever for an error that cannot be unpickled
        return _restored, (type(self), self.args, vars(self))

    def _render_traceback_(self) -> list[str]:  # called by IPython
        return [f"{type(self).__name__}: {self}"]


class CourseError(OneLine, Exception):
    """Base class of errors that the user can fix."""


class InputError(CourseError, ValueError):
    """An argument, option or run that cannot be used."""


class NotFound(CourseError, LookupError):
    """A notebook, recorded result or log that does not exist."""
