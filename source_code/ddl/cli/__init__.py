"""The command line: `ddl run`, `list`, `show`, `stop`, `compare`, `doctor` and the commands of plugins."""

import argparse
import os
import signal
import sys

import ddl
from ddl import plugins
from ddl.arguments import Parser
from ddl.cli import runs
from ddl.errors import CourseError, InputError
from ddl.records.jsonfiles import FULL

__all__ = ["main"]

DESCRIPTION = "Launch training runs on several workers, follow them, and compare their results."
EPILOG = """\
examples:
  ddl doctor                        check this machine
  ddl run -n 2 train.py --epochs 3  train on two workers
  ddl show                          follow the newest run

`ddl COMMAND --help` shows a command's options and an example.
exit status: 0 done, 1 or the failed rank's own for failed runs and checks, 2 wrong input, 130 interrupted
"""


def main(argv=None):
    """Run one command; return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal may not have all of our characters
            stream.reconfigure(errors="replace")
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments, rest = _parser(words).parse_known_args(words)
        if rest:  # of a command that passes them on
            arguments.args = rest
        status = arguments.command(arguments) or 0
        if sys.stdout:  # `>&-` closes it
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest goes nowhere
        return 128 + signal.SIGPIPE
    except CourseError as error:
        print(f"ddl: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None and error.errno in FULL:  # standard output is a file there
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            error = f"the output cannot be written: {error.strerror}"
        print(f"ddl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(f"ddl: {str(interrupt) or 'stopped'}", file=sys.stderr)
        return 130


def _parser(words=()):
    """Return the parser of a command line; InputError if this release no longer has its command."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="ddl",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=formatter,
    )
    parser.add_argument("--version", action="version", version=f"ddl {ddl.__version__}")
    commands = parser.add_subparsers(prog="ddl", required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    runs.add(commands)
    if not words or words[0] not in commands.choices:  # plugins take 40 ms, which would delay every start
        if sentence := plugins.removed(words[0]) if words else None:
            raise InputError(sentence)
        for add in plugins.each("add_commands"):
            add(commands)
    parser.description += _by_group(commands.choices)
    return parser


def _by_group(commands):
    """Return the commands with their descriptions, under the title of each one's group."""
    lines = {}
    for name, command in commands.items():
        lines.setdefault(command.group, []).append(f"\n  {name:9}  {command.description}")
    return "".join(f"\n\n{title}:{''.join(found)}" for title, found in lines.items())
