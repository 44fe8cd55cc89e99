"""What other packages add to `ddl`: objects that entry points of the group ``ddl.plugins`` name.

Each may have ``add_commands(commands)`` for the command line; for `ddl doctor` ``checks()``, and ``needs()``, names of
packages; ``pages()`` for the notebook server, {name: (title, function that returns HTML)}; and ``script_folders()``,
whose scripts are found by name.
"""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points


@cache
def _points() -> tuple[EntryPoint, ...]:
    """Look once for what is installed: a look takes milliseconds, and a launch asks for each import of a script."""
    return tuple(entry_points(group="ddl.plugins"))


def packages() -> set[str]:
    """Return this package's name and those of all plugins."""
    return {"ddl", *(point.module.partition(".")[0] for point in _points())}


def each(name: str) -> Iterator:
    """Return the functions of that name of all plugins."""
    plugins = (point.load() for point in _points())
    return (getattr(plugin, name) for plugin in plugins if hasattr(plugin, name))
