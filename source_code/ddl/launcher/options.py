"""Refuses misspelt options of a script that is found by name before anything starts.

Of any other script, its own parser is the judge when it runs.
"""

import argparse
import builtins
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from ddl import plugins
from ddl.arguments import LOOKING, Parser, ParserFound
from ddl.launcher.job import JobError, script_folders
from ddl.words import did_you_mean


def parser_of(script: str | Path) -> Parser | None:
    """Return the parser of one of the course's scripts, or None.

    The script runs until it would parse. Until then it imports only this package and the standard library, or it ends.
    """
    path = Path(script).resolve()
    if not any(path.is_relative_to(folder) for folder in script_folders()):
        return None
    text = path.read_bytes()
    if not any(f"from {package}." in text.decode(errors="replace") for package in plugins.packages()):
        return None  # it parses in its own way, and may do anything before
    names = {"__name__": "__main__", "__file__": str(path), "__builtins__": {**vars(builtins), "__import__": _import}}
    looking = LOOKING.set(True)
    try:
        exec(compile(text, path, "exec"), names)
    except ParserFound as found:
        return found.parser
    except (Exception, SystemExit):
        pass  # its ranks will say what is wrong
    finally:
        LOOKING.reset(looking)
    return None


def _import(name: str, *rest: Any) -> object:
    if name.partition(".")[0] not in (*sys.stdlib_module_names, *plugins.packages()):
        raise ImportError(name)
    return builtins.__import__(name, *rest)


def check(script: str | Path, arguments: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise JobError if a script that is found by name does not take its arguments.

    `others` are names that may have been meant as well: what the launch itself is asked for.
    """
    arguments, name = list(arguments), Path(script).name
    parser = parser_of(script)
    if parser is None or {"-h", "--help"} & set(arguments):
        return

    def refuse(message: str) -> NoReturn:
        raise JobError(f"{name}: {message}")

    parser.error = refuse  # type: ignore[method-assign]
    _, unknown = argparse.ArgumentParser.parse_known_args(parser, arguments)
    if unknown:
        asked = next((_plain(word.split("=")[0]) for word in unknown if word.startswith("-") and word != "--"), "")
        if not asked:
            refuse(f"unrecognized arguments: {' '.join(unknown)}")
        if asked in others:
            raise JobError(
                f"{name} has no option {asked}, which is the launch's: write it before the script, or {asked}=…"
            )
        known = sorted({_plain(option) for option in parser._option_string_actions} - {"h", "help"})
        has = f"; it has {', '.join(known)}" if known else "; it has none"
        raise JobError(f"{name} has no option {asked}{did_you_mean(asked, [*known, *others]) or has}")


def _plain(option: str) -> str:
    """Return an option as `launch` takes it."""
    return option.lstrip("-").replace("-", "_")
