"""Argument parser for command lines and scripts: no abbreviations, and suggestions for misspelled options."""

import argparse
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ddl.words import did_you_mean

LOOKING = ContextVar("LOOKING", default=False)  # whether a script runs only to find its parser


class ParserFound(BaseException):
    """Raised instead of parsing the command line when a script runs only to find its parser."""

    def __init__(self, parser: "Parser") -> None:
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """A parser that allows no abbreviations and suggests the closest option for an unknown one.

    A command with the default ``passes_on=True`` passes unknown options on to another program.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def parse_args(self, args: Any = None, namespace: Any = None) -> argparse.Namespace:  # type: ignore[override]
        if LOOKING.get():
            raise ParserFound(self)
        return super().parse_args(args, namespace)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple:  # type: ignore[override]
        found, rest = super().parse_known_args(args, namespace)
        if rest and not getattr(found, "passes_on", False):
            unknown = next((word for word in rest if word.startswith("-")), rest[0])
            hint = did_you_mean(unknown.split("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {unknown + hint if hint else ' '.join(rest)}")
        return found, rest


def add_command(commands: Any, name: str, function: Callable | None, text: str) -> Parser:
    """Add a command that calls `function` with the parsed arguments; it may return an exit status."""
    parser: Parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=function)
    return parser
