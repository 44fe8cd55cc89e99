"""User-facing errors: each message states the problem and the fix in one sentence."""


class OneLine:
    """Mixin for exceptions that a notebook shows as one line, without this package's frames."""

    def _render_traceback_(self) -> list[str]:  # called by IPython
        return [f"{type(self).__name__}: {self}"]


class CourseError(OneLine, Exception):
    """Base class of errors that the user can fix."""


class InputError(CourseError, ValueError):
    """An argument, option or run that cannot be used."""


class NotFound(CourseError, LookupError):
    """A notebook, recorded result or log that does not exist."""
