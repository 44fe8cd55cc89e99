"""Argument parser for command lines and scripts: no abbreviations, and suggestions for misspelled options."""

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

from ddl.text import did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser that allows no abbreviations and suggests the closest option for an unknown one.

    `group` is the title under which ``ddl --help`` lists a command.

    A command with the default ``passes_on=True`` passes unknown options on to another program.
    """

    group = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple:  # type: ignore[override]
        found, rest = super().parse_known_args(args, namespace)
        if rest and not getattr(found, "passes_on", False):
            unknown = next((word for word in rest if word.startswith("-")), rest[0])
            hint = did_you_mean(unknown.split("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {unknown + hint if hint else ' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        super().error(message + (did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2])) if choice else ""))


def add_command(
    commands: Any, name: str, function: Callable | None, text: str, example: str = "", group: str = ""
) -> Parser:
    """Add a command that calls `function` with the parsed arguments; it may return an exit status.

    `example` is a command line of it, for its help.
    """
    epilog = f"example: ddl {example}" if example else None
    parser: Parser = commands.add_parser(name, help=text, description=text, epilog=epilog)
    parser.set_defaults(command=function)
    parser.group = group
    return parser
