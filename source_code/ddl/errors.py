"""What a user did or has, said in one sentence: the errors that this package raises on purpose."""


class OneLine:
    """An exception that a notebook shows as one line: the package's own frames would say nothing."""

    def _render_traceback_(self) -> list[str]:  # asked for by IPython
        return [f"{type(self).__name__}: {self}"]


class CourseError(OneLine, Exception):
    """Something that the user can put right; the message says what was wrong, where, what to do."""


class InputError(CourseError, ValueError):
    """A value that cannot be used: an argument, an option, or a run without what was asked of it."""


class NotFound(CourseError, LookupError):
    """A name that nothing has: a notebook, a recorded result, a rank's log."""
