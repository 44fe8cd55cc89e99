"""Options of the scripts: wrong ones are refused in argparse's words, before TensorFlow is imported."""

import json
import sys
from argparse import ArgumentTypeError
from unittest.mock import Mock

import pytest

from course.training.options import Integer, Number, run
from ddl.errors import InputError
from helpers import ROOT

SCRIPTS = ROOT / "source_code"
WITH_OPTIONS = sorted(
    str(path.relative_to(SCRIPTS))
    for pattern in ("*.py", "strategies/*.py", "*/**/scripts/*.py")
    for path in SCRIPTS.glob(pattern)
    if not path.name.startswith(("one_device", "recipe_"))  # plain scripts for readers to change
)
# Runs every script as Python would. Modules that a script has to do without can't be imported.
ASK = """
import contextlib, io, json, runpy, sys
folder, *scripts = sys.argv[1:]
sys.modules.update(dict.fromkeys(("tensorflow", "horovod", "pandas", "matplotlib")))
sys.path.insert(0, folder)

def run(script, option):
    sys.argv[:], output = [script, option], io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
        try:
            runpy.run_path(f"{folder}/{script}", run_name="__main__")
        except SystemExit as end:
            return end.code, output.getvalue()
        except BaseException as error:
            return None, repr(error)

print(json.dumps({script: [run(script, option) for option in ("--help", "--nonsense")] for script in scripts}))
"""
OUTPUTS = {"answers": lambda _: ([sys.executable, "-c", ASK, SCRIPTS, *WITH_OPTIONS], {})}


@pytest.fixture(scope="module")
def answers(output_of):
    return json.loads(output_of("answers")[1])


@pytest.mark.parametrize("script", WITH_OPTIONS)
def test_script_answers_wrong_options_without_importing_tensorflow(answers, script):
    (status, shown), (refused, error) = answers[script]
    assert status == 0 and "ddl run" in shown
    assert refused == 2 and "error: " in error.splitlines()[-1]


@pytest.mark.parametrize(
    "kind, texts",
    [
        (Integer(1, 9), ("", "x", "1.5", "nan", "0", "10")),
        (Number(0, 1), ("", "x", "nan", "inf", "1e999", "-1", "2")),
        (Number(above=0), ("0",)),
    ],
)
def test_number_out_of_range_is_refused(kind, texts):
    for text in texts:
        with pytest.raises((ArgumentTypeError, ValueError)):
            kind(text)


def test_number_in_range_is_read():
    assert (Integer()("1"), Integer(0)("0"), Integer(0, 3)("3")) == (1, 0, 3)
    assert (Number()("-1.5"), Number(0)("0"), Number(above=0)("1e-3"), Number(0, 1)("1")) == (-1.5, 0, 0.001, 1)


def test_user_error_ends_a_script_with_one_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/train.py"])
    with pytest.raises(SystemExit, match=r"^train\.py: not so$"):
        run(Mock(side_effect=InputError("not so")), None)
