"""The course's command-line interface."""

from course.cli import clusters, lessons


def add_commands(commands):
    """Add the course's commands to those of `ddl`."""
    clusters.add(commands)
    lessons.add(commands)
