"""The course's command-line interface."""

from course.cli import lessons, topology


def add_commands(commands):
    """Add the course's commands to those of `ddl`."""
    topology.add(commands)
    lessons.add(commands)
