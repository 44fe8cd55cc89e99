"""Links and commands in Markdown pages: `faults` lists the broken ones.

Followed are links, their anchors, pictures, paths and commands; an address on the web is not asked for. Commands are in
code blocks, and in sentences, possibly abbreviated (`ddl run --elastic`).
"""

import contextlib
import io
import re
import runpy
import shlex
from pathlib import Path
from unittest.mock import patch

from ddl import cli
from ddl.arguments import Parser
from ddl.errors import CourseError
from ddl.launcher.job import resolve_script
from helpers import ROOT

BLOCK = re.compile(r"^(?:```(\w*)\n(.*?)^```$|\n((?: {4}\S[^\n]*\n)+))", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
VARIABLE = re.compile(r"([A-Z_]+)=(.*)", re.DOTALL)
OURS = ("make", "ddl", "python")
OTHERS = ("apt", "docker", "mkdir", "pre-commit", "ruff", "singularity", "ssh", "unzip")
MADE = ("build", "grading/course", "runs")  # not in a fresh clone
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
TEXTS = ("AGENTS.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
SETTINGS = set(re.findall(r"\$\((?:if |call quoted,|value )?([A-Z_]+)\b", MAKEFILE))
TOP = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "." and path.name not in MADE}


class Fault(Exception):
    """Something that a page names is not there."""


def faults(text, folder=ROOT):
    """Return what a page in this folder names that is not there, a sentence each."""
    prose = BLOCK.sub("\n", text)
    spans = [" ".join(span.split()) for span in CODE.findall(prose)]
    checks = [(_link, target, text, folder) for target in LINK.findall(CODE.sub("", prose))]
    for language, fenced, indented in BLOCK.findall(text):
        if language == "python":
            continue
        lines = _lines(fenced or indented)
        checks += [(_command, line) for line in lines if language == "sh" or line.split()[0] in OURS]
    checks += [(_span, span) for span in spans]
    found = []
    for check, *what in checks:
        try:
            check(*what)
        except Fault as fault:
            found.append(str(fault))
    return found


def anchors(text):
    """Return what a link may name of a page: its headings, as GitHub writes them."""
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(BLOCK.sub("\n", text))]
    return {heading.strip().replace(" ", "-") for heading in plain}


def _link(target, text, folder):
    if re.match(r"https?://\w|\.\./\.\./actions/", target):  # the second is the repository's page on GitHub
        return
    path, _, anchor = target.partition("#")
    file = folder / path
    if not file.exists():
        raise Fault(f"{target}: no such file")
    if anchor and anchor not in anchors(file.read_text() if path else text):
        raise Fault(f"{target}: no such heading")


def _lines(block):
    """Yield the commands of a block, each on one line."""
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def _span(code):
    """Look at code in a sentence, which may leave out what a command or a call needs."""
    first = code.split()[0]
    if first in OURS and code != first:
        _command(code, cut=True)
    elif re.fullmatch(r"[\w.-]+/[\w./-]*", first) and first.split("/")[0] in TOP:
        _path(first)


def _command(line, cut=False):
    words = shlex.split(line, comments=True)
    while VARIABLE.fullmatch(words[0]):
        words.pop(0)
    program, *words = words
    if program not in OURS:
        if program not in OTHERS:
            raise Fault(f"{line}: {program} is no program of the course's")
        return
    for word in words:
        if word.split("/")[0] in TOP and "/" in word:
            _path(word)
    if program == "ddl":
        _ddl(words, cut)
    else:
        {"make": _make, "python": _program}[program](words)


def _path(word):
    path = word.replace("NAME", "1.Gradient-Basics")
    if not path.startswith(MADE) and not (ROOT / path).exists():
        raise Fault(f"{word}: no such path")


def _make(words):
    for word in words:
        given = VARIABLE.fullmatch(word)
        if given and given[1] not in SETTINGS:
            raise Fault(f"make {word}: the Makefile has no such variable")
        if not given and word not in TARGETS:
            raise Fault(f"make {word}: no such target")


def _ddl(words, cut):
    parser = cli._parser()
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            given, rest = parser.parse_known_args(words)
    except SystemExit:
        why = said.getvalue().splitlines()[-1]
        if cut and "arguments are required" in why:
            return
        raise Fault(why) from None
    if rest and not getattr(given, "passes_on", False):
        raise Fault(f"ddl {shlex.join(words)}: no option {rest[0]}")
    if hasattr(given, "dry_run"):
        script, *arguments = given.script
        _script(script, arguments)


def _program(words):
    script, *arguments = words
    if not (ROOT / script).is_file():
        raise Fault(f"python {script}: no such file")
    _options(ROOT / script, arguments)


def _script(name, arguments):
    """Look for a script as `launch` does."""
    try:
        script = resolve_script(name, ROOT)
    except CourseError as error:
        raise Fault(str(error)) from None
    _options(script, arguments)


def parser_of(script):
    """Return the parser of one of the course's scripts; None for other programs, which would do their work."""
    if not Path(script).resolve().is_relative_to(ROOT / "source_code"):
        return None
    found = []

    def stop(parser, *arguments):
        found.append(parser)
        raise SystemExit

    with patch.object(Parser, "parse_known_args", stop), contextlib.suppress(SystemExit, ImportError):
        runpy.run_path(str(script), run_name="__main__")
    return found[0] if found else None


def _options(script, arguments):
    parser = parser_of(script)
    for option in (word.split("=")[0] for word in arguments):
        if parser and option.startswith("--") and option not in parser._option_string_actions:
            raise Fault(f"{Path(script).name} has no option {option[2:]}")


def pages():
    """Return the pages that people read, README first."""
    others = (ROOT / name for name in (*TEXTS, "grading/README.md", "containers/sites/README.md"))
    return [ROOT / "README.md", *sorted(Path(ROOT, "docs").glob("*.md")), *others]
