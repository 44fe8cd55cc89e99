"""Links and commands in Markdown pages: `faults` lists the broken ones."""

import contextlib
import io
import re
import shlex
from pathlib import Path

from ddl import cli
from helpers import ROOT

BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
MADE = ("build", "grading/course", "runs")  # not in a fresh clone
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
TOP = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "." and path.name not in MADE}
TEXTS = ("AGENTS.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")


def pages():
    """Return the pages that people read, README first."""
    others = (
        ROOT / name for name in (*TEXTS, "grading/README.md", "containers/sites/README.md", "source_code/README.md")
    )
    return [ROOT / "README.md", *sorted(Path(ROOT, "docs").glob("*.md")), *others]


FILES = {path.relative_to(ROOT).as_posix() for folder in TOP for path in (ROOT / folder).rglob("*")}
FILES |= {path.name for path in ROOT.iterdir()}
FILE = re.compile(r"[\w./-]*\w\.(?:py|toml|yml|lock)")
ENTRY = re.compile(r"( *)([\w.-]+(?:/[\w.-]+)*/?)  +\w")
# Of the reader's own, of a class, or made by a run.
OTHERS = re.compile(r"\w*(?:train|main|script)\w*\.py|.*NAME.*|WHO\.py|site\.toml|submission\.py|settings\.py")


def stale(page):
    """Return the files that a page names and that are nowhere, and the entries of its trees that don't exist.

    A file may be named by the end of its path.
    """
    text, wrong = page.read_text(), []
    for block in BLOCK.findall(text):
        inside = [(-1, "")]
        for line in block.splitlines() if ENTRY.match(block) else ():
            if entry := ENTRY.match(line):
                while len(entry[1]) <= inside[-1][0]:
                    inside.pop()
                path = inside[-1][1] + entry[2]
                inside.append((len(entry[1]), path))
                wrong += [path] if path.rstrip("/") not in FILES and path.split("/")[0] not in MADE else []
    names = [word for code in CODE.findall(BLOCK.sub("\n", text)) for word in FILE.findall(code)]
    ends = {name for name in names if not OTHERS.fullmatch(name.split("/")[-1])}
    return wrong + sorted(name for name in ends if not any(f"/{file}".endswith(f"/{name}") for file in FILES))


def faults(page):
    """Return the links, paths, `make` targets and `ddl` commands of a page that don't exist."""
    text = page.read_text()
    lines = [line for block in BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    lines += CODE.findall(BLOCK.sub("\n", text))
    found = [link for link in LINK.findall(CODE.sub("", text)) if not _leads_somewhere(link, page)]
    return found + [line for line in lines if not _exists(line.strip())] + stale(page)


def anchors(text):
    """Return what a link may name of a page: its headings, as GitHub writes them."""
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(BLOCK.sub("\n", text))]
    return {heading.strip().replace(" ", "-") for heading in plain}


def _leads_somewhere(link, page):
    if re.match(r"https?://\w|\.\./\.\./actions/", link):  # the second is the repository's page on GitHub
        return True
    path, _, anchor = link.partition("#")
    file = page.parent / path if path else page
    return file.exists() and (not anchor or anchor in anchors(file.read_text()))


def _exists(line):
    """Whether a command or a path is there; of a command in a sentence, parts may be left out."""
    words = line.partition(" #")[0].split()
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    if words[:1] == ["make"]:
        return all(word in TARGETS or "=" in word for word in words[1:] if word[0].isalpha())
    if words[:1] == ["ddl"]:
        return _parses(shlex.split(line, comments=True)[1:])
    path = words[0] if words else ""
    if re.fullmatch(r"[\w.-]+/[\w./-]*", path) and path.split("/")[0] in TOP and not path.startswith(MADE):
        return (ROOT / path.replace("NAME", "1.Gradient-Basics")).exists()
    return True


def _parses(words):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            given, rest = cli._parser().parse_known_args(words)
    except SystemExit as end:
        return end.code == 0 or "arguments are required" in said.getvalue()
    return not rest or getattr(given, "passes_on", False)
