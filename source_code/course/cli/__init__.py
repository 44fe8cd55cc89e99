"""What the course adds to the command line."""

from course.cli import clusters, lessons


def add_commands(commands):
    """Add the course's commands to those of `ddl`."""
    clusters.add(commands)
    lessons.add(commands)
