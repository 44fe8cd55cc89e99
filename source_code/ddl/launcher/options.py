"""Early check of a script's options, before any rank starts.

It covers only scripts that are found by name; other scripts check their options when they run.
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
    """Return the argument parser of a script that is found by name, or None.

    The script runs up to the call that parses arguments. Importing anything but this package, plugins and the standard
    library ends it earlier.
    """
    path = Path(script).resolve()
    if not any(path.is_relative_to(folder) for folder in script_folders()):
        return None
    text = path.read_bytes()
    if not any(f"from {package}." in text.decode(errors="replace") for package in plugins.packages()):
        return None  # another kind of parser, after any side effects
    names = {"__name__": "__main__", "__file__": str(path), "__builtins__": {**vars(builtins), "__import__": _import}}
    looking = LOOKING.set(True)
    try:
        exec(compile(text, path, "exec"), names)
    except ParserFound as found:
        return found.parser
    except (Exception, SystemExit):
        pass  # the ranks will report it
    finally:
        LOOKING.reset(looking)
    return None


def _import(name: str, *rest: Any) -> object:
    if name.partition(".")[0] not in (*sys.stdlib_module_names, *plugins.packages()):
        raise ImportError(name)
    return builtins.__import__(name, *rest)


def check(script: str | Path, arguments: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise JobError if a script that is found by name refuses its arguments.

    `others` are the launch's own options, to suggest if one of them was meant.
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
            advice = f"it is an option of the launch: write it before the script, or {asked}=…"
            raise JobError(f"{name} has no option {asked}; {advice}")
        known = sorted({_plain(option) for option in parser._option_string_actions} - {"h", "help"})
        has = f"; its options are {', '.join(known) or 'none'}"
        raise JobError(f"{name} has no option {asked}{did_you_mean(asked, [*known, *others]) or has}")


def _plain(option: str) -> str:
    """Return an option as a keyword of `launch`."""
    return option.lstrip("-").replace("-", "_")
