"""The attendees' own check, by command and in a notebook's kernel."""

import os
import signal
import threading
from functools import partial

import nbformat
import pytest

from course.grader.grade import Verdict
from course.grader.limits import Limits
from course.lab import attendee
from course.lab.check import Answers, check_file, interruptible
from ddl import cli
from doubling import SOLVED, STUBS, write_lesson


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """Return a function that writes the lesson into this folder's ``notebooks/``."""
    monkeypatch.chdir(tmp_path)
    return partial(write_lesson, tmp_path)


BROKEN = {"q01_double": "import nowhere\ndef double(x):\n    return 2 * x"}


@pytest.mark.parametrize("answers, status, lines", [
    (SOLVED, 0, ["question 1  passed", "question 2  passed", "2 of 2 questions pass, 4 of 4 points;"]),
    (STUBS, 1, ["question 1  not yet: `double` is still", "question 2  not yet: `table` is not", "0 of 2 questions"]),
    (SOLVED | BROKEN, 1, ["cell 1 ended with ModuleNotFoundError: No module named 'nowhere'", "1 of 2 questions pass"]),
])  # fmt: skip
def test_check_command_reports_each_question(lesson, capsys, answers, status, lines):
    lesson(answers, "import sys, warnings\nwarnings.warn('x')\nprint('y', file=sys.stderr)")
    assert cli.main(["check", "7"]) == status
    out = capsys.readouterr().out
    assert all(line in out for line in lines), out


def test_question_with_several_tests_counts_once():
    verdicts = [
        Verdict(f"q0{number}_test", 1, bool(passed), "no") for number, passed in (("1_a", 1), ("1_b", 0), ("2_c", 1))
    ]
    assert "1 of 2 questions pass, 2 of 3 points" in str(Answers("7.Doubling", tuple(verdicts)))


def test_cells_read_but_cannot_replace_neighboring_files(lesson):
    """Somebody may have worked on a script since the cell that writes it was run."""
    path = lesson(
        SOLVED | {"q02_table": "table = eval(open('table.txt').read()) + eval(open('../more.txt').read())"},
        first=("%%writefile mine.py\nprint('as the cell has it')", "import os\nos.remove('table.txt.bak')"),
    )
    files = {"table.txt": "[1, 4]", "table.txt.bak": "", "mine.py": "print('mine')", "../more.txt": "[9]"}
    for name, text in files.items():
        (path.parent / name).write_text(text)
    assert check_file(path).passed
    assert {name: (path.parent / name).read_text() for name in files} == files
    assert {each.name for each in path.parent.parent.iterdir()} == {"notebooks", "more.txt"}


def test_an_interrupt_ends_a_check(lesson):
    path = lesson(SOLVED | {"q01_double": "def double(x):\n    while True: pass"})
    before = signal.getsignal(signal.SIGINT)
    interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start
    with pytest.raises(KeyboardInterrupt), interruptible():
        check_file(path, Limits(call_s=60), begin=lambda question: interrupt())
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.slow("source_code/course/grader/*", "source_code/course/lab/*")
def test_check_above_a_cell_keeps_other_results(lesson, tmp_path):
    path = lesson(SOLVED)
    check_file(path)
    between = nbformat.read(path, as_version=4).cells[2].id
    lesson(SOLVED | {"q01_double": "double = abs", "q02_table": "table = 0"}, "from course import check\ncheck()")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].id = between
    nbformat.write(notebook, path)
    found = check_file(path, above=between)
    assert [(verdict.grade_id, verdict.passed) for verdict in found.verdicts] == [("q01_double_test", False)]
    assert found.name == "7.Doubling to here"
    assert "not yet: expected <code>double(2) == 4</code>" in found._repr_html_()
    found = {test: passed for test, (passed, _) in attendee.checked("7.Doubling").items()}
    assert found == {"q01_double_test": False, "q02_table_test": True}
    assert len(check_file(path, above="no such cell").verdicts) == 2
