"""Options of the scripts: what cannot be is said at once, in argparse's words, without TensorFlow."""

import json
import sys
from pathlib import Path
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
HEAVY = ("tensorflow", "horovod", "pandas", "matplotlib")
WHOLE = ("", "x", "1.5", "nan", "9" * 30)
NUMBER = ("", "x", "nan", "inf", "-inf", "1e999")
TOGETHER = {
    "train_text.py": (["--embedding", "folder", "--export", "there"], "use --embedding own"),
    "train_cifar.py": (["--recipe", "hot"], "invalid choice: 'hot' (choose from"),
    "train_submission.py": (
        "--built x --pictures x --seed 1 --secret 2 --samples 1000".split(),
        "--samples 1000 is no multiple of the global batch, 1,024",
    ),
    "bench_allreduce.py": (["--nccl", "PATH=x"], "expected NCCL_NAME=VALUE"),
}

# Runs every script as Python would, with wrong options one after another; a parser, once met,
# parses the others by itself. Modules that a script has to do without can't be imported.
ASK = """
import argparse, contextlib, io, json, runpy, sys
scripts, folder, heavy, whole, number, together = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(heavy))
sys.path.insert(0, folder)

def ended(action):
    output = io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
        try:
            action()
        except SystemExit as end:
            return end.code, output.getvalue()
        except BaseException as error:
            return None, repr(error)
    return None, "it went on: " + output.getvalue()

def run(script, *options):
    sys.argv[:] = [script, *options]
    return ended(lambda: runpy.run_path(f"{folder}/{script}", run_name="__main__"))

parse, met = argparse.ArgumentParser.parse_args, []
argparse.ArgumentParser.parse_args = lambda self, *rest: (met.append(self), parse(self, *rest))[1]
from course.training.options import Number, Integer
answers = {}
for script in scripts:
    met.clear()
    found = answers[script] = {"help": run(script, "--help"), "wrong": {}, "plain": []}
    found["unknown"] = run(script, "--nonsense")
    if script in together:
        found["together"] = run(script, *together[script])
    parser = met[0]
    found["options"] = [name for action in parser._actions for name in action.option_strings if name[:2] == "--"]
    for action in parser._actions:
        if action.nargs != 0 and action.type in (int, float):
            found["plain"].append(action.option_strings)
        wrong = []
        if isinstance(action.type, Integer):
            wrong = [*whole, action.type.least - 1, action.type.most + 1]
        elif isinstance(action.type, Number):
            wrong = [*number, *(limit for limit in (action.type.least - 1, action.type.above,
                                                    action.type.most * 2) if abs(limit) < 1e300)]
        option = action.option_strings[0]
        if wrong:
            found["wrong"][option] = [
                (str(value), *ended(lambda: parse(parser, [f"{option}={value}"])))
                for value in wrong]
            value = wrong[-1]
            found["wrong"][option].append((str(value), *run(script, f"{option}={value}")))
print(json.dumps(answers))
"""


def questions(_):
    together = {script: arguments for script, (arguments, _) in TOGETHER.items()}
    asked = [WITH_OPTIONS, str(SCRIPTS), HEAVY, WHOLE, NUMBER, together]
    return [sys.executable, "-c", ASK, json.dumps(asked)], {}


OUTPUTS = {"answers": questions}


@pytest.fixture(scope="module")
def answers(output_of):
    return json.loads(output_of("answers")[1])


@pytest.mark.parametrize("script", WITH_OPTIONS)
def test_wrong_options_end_a_script_before_tensorflow_is_imported(answers, script):
    found = answers[script]
    status, output = found["help"]
    assert status == 0 and "ddl run" in output
    status, output = found["unknown"]
    assert status == 2 and "error: " in output.splitlines()[-1]
    assert not found["plain"], "numbers that nothing checks"
    assert found["wrong"] or script.endswith("hello.py")
    for option, tries in found["wrong"].items():
        for value, status, output in tries:
            refusal = f"{Path(script).name}: error: argument {option}: "
            assert status == 2 and output.splitlines()[-1].startswith(refusal), (option, value, output)
            assert "Traceback" not in output
    if script in TOGETHER:
        status, output = found["together"]
        assert status == 2 and TOGETHER[script][1] in output.splitlines()[-1], output


def test_a_mistake_ends_a_script_with_one_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/train.py"])
    with pytest.raises(SystemExit, match=r"^train\.py: not so$"):
        run(Mock(side_effect=InputError("not so")), None)


def test_numbers_that_can_be_are_read():
    assert (Integer()("1"), Integer(0)("0"), Integer(0, 3)("3")) == (1, 0, 3)
    assert (Number()("-1.5"), Number(0)("0"), Number(above=0)("1e-3"), Number(0, 1)("1")) == (-1.5, 0, 0.001, 1)
