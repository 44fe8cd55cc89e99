"""The magics of live ranks: ``%load_ext ddl`` brings ``%%ranks`` and ``%ranks`` to a notebook."""

import atexit
import os
import shlex
from functools import partial
from importlib.util import find_spec
from typing import Any, NoReturn

from ddl.arguments import Parser
from ddl.errors import InputError
from ddl.live.cells import LiveRanks
from ddl.live.loop import FLAGS, plain
from ddl.start import fork_client

HELP = "%%ranks 2 above a cell; %ranks, %ranks stop, %ranks push NAME ..., %ranks pull NAME ..."
PYTHON_ONLY = (
    "needs IPython, and ranks run plain Python: put %%time or %%capture above the %%ranks line, and other magics and ! "
    "commands into another cell; to run a command on ranks, use subprocess.run"
)

_live: LiveRanks | None = None


def load_ipython_extension(shell: Any) -> None:
    """Add ``%%ranks`` and ``%ranks`` to a notebook, and warm up the fork server for the first cell."""
    shell.register_magic_function(partial(_ranks, shell), "line_cell", "ranks")
    atexit.register(stop)
    if os.environ.get("DDL_WARM") != "no" and fork_client.can_import():
        fork_client.connection()


def stop() -> None:
    """End this notebook's live ranks, if there are any."""
    global _live
    ended, _live = _live, None
    if ended and not ended.over:
        ended.stop()


def live() -> LiveRanks:
    """Return this notebook's live ranks; InputError if there are none."""
    if not _live or _live.over:
        raise InputError(f"no ranks are live: {HELP}")
    return _live


def pull(name: str) -> list:
    """Return a variable of the live ranks, as ``%ranks pull`` does: its value on each rank, in their order."""
    return live().pull(name)


def _ranks(shell: Any, line: str, cell: str | None = None) -> Any:
    """Run a cell on live ranks: %%ranks [N] [--cluster C] [--site FILE] [--nodes N] [--threads N] [--oversubscribe].

    %ranks shows the ranks' run, %ranks stop ends them, %ranks push NAME ... copies variables of the notebook to every
    rank, and %ranks pull NAME ... copies them back, as a list with one value for each rank.
    """
    words = shlex.split(line)
    if cell is not None:
        source = f"\n{cell}"  # so that lines have the notebook's numbers
        quiet = _is_quiet(shell, source)
        return _ranks_for(_options(words)).execute(source, quiet)
    command, *names = words or ["show"]
    if command == "stop" and not names:
        return stop()
    if command == "show" and not names:
        return live().run
    if command == "push" and names:
        if missing := [name for name in names if name not in shell.user_ns]:
            raise InputError(f"the notebook has no variable {missing[0]!r}")
        return live().push({name: plain(shell.user_ns[name], name) for name in names})
    if command == "pull" and names:
        return shell.user_ns.update({name: pull(name) for name in names})
    raise InputError(f"%ranks {line}: {HELP}")


def _is_quiet(shell: Any, source: str) -> bool:
    """Return whether a cell ends in a semicolon, which hides its value; InputError if it has magics or ! commands."""
    from IPython.core.displayhook import DisplayHook

    try:
        compile(source, "cell", "exec", FLAGS)
    except SyntaxError as error:  # ranks report what is not for IPython either
        if "get_ipython()" in shell.transform_cell(source):
            raise InputError(f"line {error.lineno} ({(error.text or '').strip()}) {PYTHON_ONLY}") from None
        return False
    return DisplayHook.semicolon_at_end_of_expression(source)


class _Line(Parser):
    """The parser of a cell's first line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"%%ranks: {message}")


def _options(words: list[str]) -> dict[str, Any]:
    """Return the options of `launch` that are given in a cell's first line; InputError if one is unknown."""
    parser = _Line(add_help=False)
    parser.add_argument("workers", type=int, nargs="?")
    for name, kind in (("cluster", str), ("site", str), ("nodes", int), ("threads", int)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--oversubscribe", action="store_true", default=None)
    return {name: value for name, value in vars(parser.parse_args(words)).items() if value is not None}


def _ranks_for(options: dict[str, Any]) -> LiveRanks:
    """Return the live ranks; start new ones if there are none, or none with these options.

    A line without options starts ranks like those that are over.
    """
    global _live
    default = {"workers": 2, "cluster": "horovod" if find_spec("horovod") else "torchrun"}
    before, how = _live, ""
    if before and not before.over:
        progress = before.run.progress()
        how = f"is over ({progress.state})" if progress.over and not progress.failure else "ends"
        if how == "ends" and all(before.options.get(name) == value for name, value in options.items()):
            return before
    _live = LiveRanks(**default | (options or (before.options if before else {})))  # what cannot start ends no ranks
    if before and how:
        print(f"# run {before.run.id} {how}: this cell runs on new ranks, without its variables")
        before.stop()
    return _live
