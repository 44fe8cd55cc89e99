"""Errors of topology readers."""

from ddl.errors import CourseError


class TopologyError(CourseError, ValueError):
    """Invalid description of a machine, with file and line."""

    @classmethod
    def at(cls, file, line, problem):
        """Return the error for one line of a file (`line` counts from 1; None: the whole file)."""
        return cls(f"{file}, line {line}: {problem}" if line else f"{file}: {problem}")
