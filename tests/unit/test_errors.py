"""The family of errors: what a user did or has is a `CourseError`, and one line; the rest is a traceback."""

import ast
import builtins

import pytest

from ddl import cli
from ddl.errors import InputError, NotFound
from helpers import ROOT

TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text())
    for folder in ("source_code", "grading/marking", "grading/hub")
    for path in sorted((ROOT / folder).rglob("*.py"))
}

OUTSIDE = {
    "Ended": "the grader makes a verdict of it",
    "Late": "the grader makes a verdict of it",
    "_OutOfTime": "the grader makes verdicts of it",
    "_Bad": "the table of a class leaves the file out, with a sentence",
    "_NoAnswer": "no `except Exception` of a test may catch it",
    "RunInterrupted": "an interrupt, for a notebook to stop at",
    "ScoreInterrupted": "an interrupt, for a notebook to stop at",
    "ParserFound": "ends a script where its command line would be parsed",
    "Uncounted": "the check of a submission's graphs makes a refusal of it",
}
PLAIN = {
    "source_code/bench_allreduce.py": "a library that adds up wrongly",
    "source_code/bench_p2p.py": "a network that changes what it carries",
    "source_code/hello.py": "a library that adds up wrongly",
    "source_code/hierarchical_allreduce.py": "a lesson's script that adds up wrongly",
    "source_code/race_allreduce.py": "a lesson's script that adds up wrongly",
    "source_code/ddl/challenge/arithmetic.py": "caught and told by the same module",
    "source_code/ddl/challenge/build.py": "caught and told by the same module",
    "source_code/ddl/challenge/graphs.py": "caught and told by the same module",
    "source_code/ddl/challenge/journal.py": "caught and told by the same module",
    "source_code/ddl/diagnose/report.py": "a check in a state that there is not: a mistake in the package",
    "source_code/ddl/grader/launched.py": "caught and told by the same module",
    "source_code/ddl/grader/limits.py": "limits that the course itself sets",
    "source_code/ddl/rank/fork.py": "what the kernel says of a fork, in the template's log",
    "source_code/ddl/rank/hosts.py": "caught and told by the same module",
    "source_code/ddl/data/synthetic.py": "what the system says of a full disk",
    "source_code/ddl/records/files.py": "what is no file, said as the system says it",
    "source_code/ddl/records/jsonfiles.py": "what the system says of a full disk",
    "grading/marking/feedback.py": "what the system says of a full disk",
    "grading/marking/sandbox.py": "caught and told by the same module",
}


def test_every_error_is_of_the_family_or_has_a_reason():
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }

    def ancestors(name):
        return {name}.union(*map(ancestors, bases.get(name, set()) - {name}))  # its base may have its name

    errors = {name: ancestors(name) for name in bases if any(map(_is_exception, ancestors(name)))}
    assert len(errors) > 20
    assert {name for name, above in errors.items() if "CourseError" not in above} == set(OUTSIDE)


def test_plain_errors_are_raised_only_for_a_reason():
    names = (
        "Exception ValueError TypeError RuntimeError LookupError KeyError IndexError OSError FileNotFoundError".split()
    )
    found = {
        path
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) in names
    }
    assert found == {path for path in PLAIN if (ROOT / path).exists()}  # the image has no grading/


def _is_exception(name):
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


@pytest.mark.parametrize("bug", [KeyError("x"), ValueError("x"), IndexError("x"), RuntimeError("x")])
def test_a_bug_shows_its_traceback(monkeypatch, capsys, bug):
    def broken():
        raise bug

    monkeypatch.setattr("ddl.data.listing", broken)
    with pytest.raises(type(bug)):
        cli.main(["data", "list"])
    assert "ddl: " not in capsys.readouterr().err


@pytest.mark.parametrize("error", [InputError("no such thing"), NotFound("no such thing"), OSError("no such thing")])
def test_what_a_user_can_put_right_is_one_line(monkeypatch, capsys, error):
    def refuse():
        raise error

    monkeypatch.setattr("ddl.data.listing", refuse)
    assert cli.main(["data", "list"]) == 2
    assert capsys.readouterr().err == "ddl: no such thing\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "no-such.py"], "no script 'no-such.py'"),
        (["run", "--site", "no-such.toml", "hello.py"], "no-such.toml: there is no such site file"),
        (["run", "-n", "0", "hello.py"], "workers=0"),
        (["show", "nosuch"], "no run 'nosuch'"),
        (["stop", "nosuch"], "no run 'nosuch'"),
        (["compare", "nosuch"], "no run 'nosuch'"),
        (["topology", "nosuch"], "'nosuch' is neither a file nor a recorded topology"),
        (["topology", "damaged.toml"], "damaged.toml: this is not TOML"),
        (["topology", "damaged.xml"], "damaged.xml, line 1"),
        (["topology", "damaged.txt"], "damaged.txt"),
        (["topology", "dgx-1", "--figure", "drawn.nosuch"], "--figure drawn.nosuch: Format 'nosuch' is not supported"),
        (["topology", "dgx-1", "--figure", "nowhere/drawn.png"], "nowhere/drawn.png"),
        (["predict", "--topology", "dgx-1", "--model", "nosuch"], "there is no model 'nosuch'"),
        (["check", "nosuch"], "no lesson begins with 'nosuch'"),
        (["check", "nosuch.ipynb"], "there is no notebook nosuch.ipynb"),
        (["check", "damaged.ipynb"], "damaged.ipynb cannot be read as a notebook"),
        (["check", "empty.ipynb"], "empty.ipynb has no questions with tests"),
        (["data", "add", "quora", "nosuch.csv"], "nosuch.csv"),
        (["data", "add", "quora", "damaged.txt"], "damaged.txt"),
        (["data", "add", "quora", "damaged.zip"], "damaged.zip"),
    ],
)
def test_every_command_refuses_in_one_line(monkeypatch, capsys, tmp_path, words, expected):
    monkeypatch.chdir(tmp_path)
    for name in ("RUNS", "DATA"):
        monkeypatch.setenv(f"DDL_{name}_DIR", str(tmp_path / name))
    for name in ("damaged.toml", "damaged.xml", "damaged.txt", "damaged.ipynb"):
        (tmp_path / name).write_text("<nonsense")
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04")
    (tmp_path / "empty.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    assert cli.main(words) == 2
    said = capsys.readouterr()
    assert said.err.startswith("ddl: ") and expected in said.err and said.err.count("\n") == 1, said.err


@pytest.mark.parametrize("words", [["data", "fetch", "nosuch"], ["predict"], ["list", "--nosuch"]])
def test_words_that_are_no_command_end_with_status_2(capsys, words):
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    assert capsys.readouterr().err.startswith("usage: ddl")
