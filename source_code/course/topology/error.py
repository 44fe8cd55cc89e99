"""The error of whatever cannot be read as a topology."""

from ddl.errors import CourseError


class TopologyError(CourseError, ValueError):
    """Something that describes a machine cannot be read; says which file and line, and why."""

    @classmethod
    def at(cls, file, line, problem):
        """Return the error for one line of a file (`line` counts from 1; None: the whole file)."""
        return cls(f"{file}, line {line}: {problem}" if line else f"{file}: {problem}")
