"""Grading a notebook in plain processes: verdicts, their words, and a worker that breaks off."""

import itertools
import json
import os
import re
import statistics
import subprocess
import sys

import numpy as np
import psutil
import pytest

from course.grader import serialize, worker
from course.grader.grade import CellError, Verdict, grade_notebook
from course.grader.judge import judge
from course.grader.limits import Limits
from course.grader.worker import respond
from course.grader.worker_process import Channel, Ended, Late
from helpers import code, question


def graded(*cells, **options):
    """Grade a notebook by its visible tests."""
    return grade_notebook({"cells": cells}, hidden=False, **options)


@pytest.fixture(autouse=True)
def nothing_stays():
    before = psutil.Process().children(recursive=True)  # other tests' servers
    yield
    left = set(psutil.Process().children(recursive=True)) - set(before)
    assert all(one.status() == psutil.STATUS_ZOMBIE for one in left if one.is_running())


def asked(names):
    """The question and answer between a test and names, in this process."""
    return lambda request: json.loads(json.dumps(respond(names, request)))


def told(source, **names):
    return judge(source, asked(names))["message"]


# ---------------------------------------------------------------- one test


def double(x, extra=0):
    return 2 * x + extra


def test_passing_test_gives_no_message():
    def broken(x):
        raise ZeroDivisionError("no")

    answer = asked({"double": double, "value": [1, 2.5], "broken": broken})
    for source in (
        "",
        "assert double(2) == 4 and double(2, extra=1) == 5 and value == [1, 2.5]",
        "import math as m\nassert m.isclose(double(1), 2) and all(double(n) >= n for n in (1, 2))",
        "def twice(f, x):\n    return f(f(x))\nassert twice(double, 1) == 4",
        "try:\n    broken(1)\nexcept ZeroDivisionError as e:\n    assert str(e) == 'no'\nelse:\n    assert False",
    ):
        assert judge(source, answer) == {"passed": True, "message": "", "printed": ""}, source


@pytest.mark.parametrize("source, message", [
    ("assert double(2) == 5", "expected `double(2) == 5`, but `double(2)` is 4"),
    ("r = double(2)\nassert round(r, 3) == 5", "but `r` is 4 (double(2) returned 4)"),
    ("import math\nassert math.isclose(abs(double(2)), 5, rel_tol=1e-6)", "but `double(2)` is 4"),
    ("assert double(2) == 5, 'twice two'", "twice two (`double(2)` is 4)"),
    ("x = double(2)\nassert x == 5, f'it is {x}'", "it is 4"),
    ("assert all(double(n) < 4 for n in (1, 2))", "for n in (1, 2)))` (double(2) returned 4)"),
    ("assert nothing(1) + 1 == 2", "unsupported operand type(s) for +: 'NoneType' and 'int' (nothing(1) returned None: is"),
    ("assert broken(1) == 2", "broken(1) raised ZeroDivisionError: division by zero"),
    ("assert todo(1) == 2", "`todo` is still to be written"),
    ("assert missing(1) == 2", "`missing` is not defined"),
    ("assert strange(1) == 2", "strange(1) returned a value of type object: only None, numbers"),
    ("assert thing == 2", "`thing` is a value of type object"),
    ("assert leaving(1) == 2", "leaving(1) raised SystemExit: 0"),
    ("assert double('x' * 999) == 2", f"double('{'x' * 191}… raised TypeError"),
])  # fmt: skip
def test_failed_test_shows_expected_and_actual(source, message):
    def todo(x):
        raise NotImplementedError

    names = {
        "double": double,
        "nothing": lambda x: None,
        "broken": lambda x: x / 0,
        "todo": todo,
        "strange": lambda x: object(),
        "thing": object(),
        "leaving": lambda x: sys.exit(0),
    }
    assert message in told(source, **names)


class TooFew(ValueError):
    """As an attendee may write one."""


class Odd(KeyError, ZeroDivisionError):
    """Of two kinds."""


def test_exception_subclass_is_accepted():
    cases = [
        (statistics.StatisticsError("no data"), "ValueError", True), (TooFew(), "ValueError", True),
        (json.JSONDecodeError("x", "y", 0), "ValueError", True), (np.linalg.LinAlgError("x"), "ValueError", True),
        (Odd("x"), "KeyError", True), (Odd("x"), "ArithmeticError", True), (KeyError("x"), "LookupError", True),
        (TooFew(), "KeyError", False), (Odd("x"), "ValueError", False),
    ]  # fmt: skip
    for raised, caught, passes in cases:

        def broken(raised=raised):
            raise raised

        message = told(f"try:\n    broken()\nexcept {caught}:\n    pass\nelse:\n    assert False", broken=broken)
        assert passes == (not message), (raised, caught)
        assert passes or f"broken() raised {type(raised).__name__}" in message


def test_generator_is_accepted_as_a_list(monkeypatch):
    for module in (serialize, worker):
        monkeypatch.setattr(module, "ITEMS", 1_000)

    def squares(numbers):
        if not numbers:
            raise ValueError("none")
        for number in numbers:
            yield number * number

    found = {"squares": squares, "table": map(abs, [-1, 2]), "endless": itertools.count()}
    test = (
        "assert squares([1, 2]) == [1, 4] and table == [1, 2]\n"
        "try:\n    squares([])\nexcept ValueError:\n    pass\nelse:\n    assert False"
    )
    answer = asked(found)
    assert [judge(test, answer)["message"] for _ in range(2)] == ["", ""]
    assert list(found["table"]) == [1, 2]  # it is still to be read
    assert "1,000 items" in judge("assert endless", answer)["message"]
    assert next(found["endless"]) == 0


def test_test_stops_without_an_answer():
    source = "try:\n    double(1)\nexcept Exception:\n    pass"
    for answer, message in (
        ({"late": 10}, "was stopped after 10 s: does it ever return?"),
        ({"ended": "it ended with status 3"}, "ended the process"),
        ({"value": '{"class": 1}'}, "returned what came back is not plain"),
        ({"nonsense": 1}, "no answer that can be read"),
    ):
        replies = iter([{"names": {"double": {"function": True}}}, answer])
        assert message in judge(source, lambda request, replies=replies: next(replies))["message"]


# ---------------------------------------------------------------- a notebook


def test_a_notebook_is_graded_in_order():
    notebook = {"cells": [
        {"cell_type": "markdown", "source": "def f(): 1", "metadata": {}},
        code(["import math\n", "print('hello')\n", "math.pi"]),
        code("raise SystemError('never run')", tags=["demo"]),
        code("def f(x):\n    print('not kept')\n    return x"),
        question("first", "print('here')\nassert f(1) == 1", 2),
        code("def f(x):\n    return -x"),
        question("second", "assert f(1) == 1"),
        code("1 / 0"),
        question("third", "assert f(1) == -1\n### BEGIN HIDDEN TESTS\nassert f(2) == 777\n"
                          "### END HIDDEN TESTS", 4),
    ]}  # fmt: skip
    found = grade_notebook(notebook, hidden=True)
    assert found.verdicts == (
        Verdict("first", 2, True, "", "here\n"),
        Verdict("second", 1, False, "expected `f(1) == 1`, but `f(1)` is -1"),
        Verdict("third", 4, False, "A hidden test did not pass."),
    )
    assert [cell.index for cell in found.cells] == [1, 3, 5, 7]
    assert re.fullmatch(r"hello\nOut\[\d\]: 3.141592653589793\n", found.cells[0].printed)  # IPython 8 counts from 1
    assert found.cells[3].error.type == "ZeroDivisionError"
    assert "1 / 0" in found.cells[3].error.traceback
    assert found.notes == ()
    assert [verdict.passed for verdict in grade_notebook(notebook, hidden=False).verdicts] == [True, False, True]


def test_exit_in_a_cell_costs_no_other_question():
    found = graded(
        code("def f(x):\n    return x"), code("import os\nos._exit(3)"),
        code("def g(x):\n    return f(x)"), question("g", "assert g(1) == 1"),
        code("def h(x):\n    while True: pass"), question("h", "assert h(1) == 1"),
        code("while True: pass"), question("g again", "assert g(1) == 1"),
        limits=Limits(cell_s=0.5, call_s=0.25),
    )  # fmt: skip
    assert [verdict.passed for verdict in found.verdicts] == [True, False, True]
    assert found.verdicts[1].message == "h(1) was stopped after 0.25 s: does it ever return?"
    assert found.cells[1].error == CellError("ProcessEnded", "it ended with status 3")
    assert found.cells[4].error == CellError("TimeLimit", "it did not end within 0.5 s")
    assert found.notes == (
        "cell 2: it ended with status 3",
        "h did not return within 0.25 s",
        "cell 7: it did not end within 0.5 s",
    )


def test_fork_in_a_cell_costs_no_question():
    found = graded(
        code("import os\ndef one():\n    return 1"),
        code("copies = [os.fork() for _ in range(3)]"),
        question("after", "assert one() == 1"),
        code("print('still here')"),
        question("end", "assert one() == 1"),
    )
    assert [verdict.passed for verdict in found.verdicts] == [True, True] and not found.notes
    assert found.cells[-1].printed == "still here\n"


def test_function_that_is_still_to_be_written_is_named():
    found = graded(
        code("def inner():\n    raise NotImplementedError\n\n\ndef outer():\n    return inner()"),
        question("outer", "assert outer() == 1"),
    )
    assert found.verdicts[0].message == "`inner` is still to be written"


def test_endless_test_is_stopped():
    found = graded(
        code("def f():\n    return 10**15"),
        question("busy", "for _ in range(f()): pass"),
        question("next", "assert f() == 10**15"),
        limits=Limits(test_s=0.5),
    )
    assert [verdict.passed for verdict in found.verdicts] == [False, True]
    assert found.verdicts[0].message == "the test did not end within 0.5 s"


# ---------------------------------------------------------------- the conversation


@pytest.fixture
def channel():
    """Return a function that starts a Python program to speak with."""
    started = []

    def begin(program):
        started.append(Channel([sys.executable, "-c", program]))
        return started[-1]

    yield begin
    for one in started:
        one.kill()


@pytest.mark.parametrize("program, trouble", [
    ("import time; time.sleep(60)", Late),
    ("import time; print('{\"a\": 1}', end='', flush=True); time.sleep(60)", Late),
    ("print('x' * 5000, flush=True); input()", "more than 1,000 bytes"),
    ("import sys\nwhile True: sys.stdout.write('x' * 5000)", "more than 1,000 bytes"),
    ("input(); print('[1]')", "not a JSON object"), ("input(); print('[' * 900)", "not a JSON object"),
    ("import sys; input(); sys.stdout.buffer.write(b'\\xff\\n')", "not a JSON object"),
    ("", "status 0"), ("import os; os.abort()", "SIGABRT"), ("import os; os._exit(137)", "SIGKILL"),
    ("import os, time; os.closerange(0, 2); time.sleep(60)", "closed its connection"),
])  # fmt: skip
def test_worker_answers_are_limited_in_time_and_size(channel, program, trouble):
    if trouble is Late:
        for request in ({}, {"x": "y" * 2**20}):  # nor does it listen
            process = channel(program)
            with pytest.raises(Late):
                process.ask(request, 0.3, 1_000)
            assert not psutil.pid_exists(process.pid)
    else:
        with pytest.raises(Ended, match=trouble):
            channel(program).ask({}, 20, 1_000)


def test_judge_imports_nothing_from_its_folder(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('hijacked')")
    ran = subprocess.run(
        [sys.executable, "-I", "-m", "course.grader.judge"],
        cwd=tmp_path,
        input=b"",
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
