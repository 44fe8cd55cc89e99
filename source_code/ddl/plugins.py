"""Extensions of `ddl` by other packages, found by their entry points in the group ``ddl.plugins``.

An entry point names an object that may define ``add_commands(commands)`` for the command line, ``checks()`` and
``needs()`` (names of packages) for `ddl doctor`, ``pages()`` for the notebook server as {name: (title, function that
returns HTML)}, ``script_folders()``, whose scripts are found by name, ``hidden_figures()``, names of numbers in events
that the view of a run leaves out, and ``REMOVED``: a sentence on each command, script, data set or type of file that
this release no longer has, by its name.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@cache
def _points() -> tuple["EntryPoint", ...]:
    # Searching takes milliseconds, and a launch asks once for each import in a script.
    from importlib.metadata import entry_points  # takes 25 ms, which would delay every start

    return tuple(entry_points(group="ddl.plugins"))


def packages() -> set[str]:
    """Return the names of this package and of all plugins' packages."""
    return {"ddl", *(point.module.partition(".")[0] for point in _points())}


def each(name: str) -> Iterator:
    """Return the function or table `name` of each plugin that defines it."""
    plugins = (point.load() for point in _points())
    return (getattr(plugin, name) for plugin in plugins if hasattr(plugin, name))


def removed(name: str) -> str | None:
    """Return the sentence on what this release no longer has, or None."""
    return next((table[name] for table in each("REMOVED") if name in table), None)
