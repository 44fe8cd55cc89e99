"""Errors: what a user did or has is a `CourseError`, and one line; the rest is a traceback."""

from unittest.mock import Mock

import pytest

from ddl import cli
from ddl.errors import InputError, NotFound


def test_bug_shows_traceback_but_user_error_one_line(monkeypatch, capsys):
    for error in (KeyError("x"), ValueError("x"), RuntimeError("x")):
        monkeypatch.setattr("course.data.listing", Mock(side_effect=error))
        with pytest.raises(type(error)):
            cli.main(["data", "list"])
        assert "ddl: " not in capsys.readouterr().err
    for error in (InputError("no such thing"), NotFound("no such thing"), OSError("no such thing")):
        monkeypatch.setattr("course.data.listing", Mock(side_effect=error))
        assert cli.main(["data", "list"]) == 2
        assert capsys.readouterr().err == "ddl: no such thing\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "no-such.py"], "no script 'no-such.py'"),
        (["run", "--site", "no-such.toml", "hello.py"], "no-such.toml: "),
        (["run", "-n", "0", "hello.py"], "workers must be an integer"),
        (["show", "nosuch"], "no run 'nosuch'"),
        (["topology", "nosuch"], "'nosuch' is neither a file nor a recorded topology"),
        (["topology", "damaged.toml"], "damaged.toml: this is not TOML"),
        (["topology", "dgx-1", "--figure", "drawn.nosuch"], "--figure drawn.nosuch: Format 'nosuch' is not supported"),
        (["check", "nosuch.ipynb"], "there is no notebook nosuch.ipynb"),
        (["check", "damaged.ipynb"], "damaged.ipynb cannot be read as a notebook"),
        (["check", "empty.ipynb"], "empty.ipynb has no questions with tests"),
        (["data", "add", "quora", "damaged.zip"], "damaged.zip"),
        (["data", "fetch", "mnist"], "no data set 'mnist'; there are: cifar10,"),
    ],
)
def test_every_command_refuses_in_one_line(monkeypatch, capsys, tmp_path, words, expected):
    monkeypatch.chdir(tmp_path)
    for name in ("RUNS", "DATA"):
        monkeypatch.setenv(f"DDL_{name}_DIR", str(tmp_path / name))
    for name in ("damaged.toml", "damaged.ipynb"):
        (tmp_path / name).write_text("<nonsense")
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04")
    (tmp_path / "empty.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    assert cli.main(words) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("ddl: ") and expected in printed and printed.count("\n") == 1, printed
