"""Right and wrong answers to the lessons' questions, and what marking makes of each.

`variants/<lesson>.py` holds them as cells that are read here and never imported. A cell's title is the answer cell's
`grade_id` and ``right`` or ``wrong``. If the title goes on with the style or the mistake, the cell is such an answer; it
runs after the model answer: what it does not define is as the model has it. Otherwise each line of the cell is one: the
style or the mistake, and what stands in the model answer -> what stands there instead.
"""

import ast
import contextlib
import re
import signal
import warnings
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest

import lessons
from course.grader import cells as lesson_cells
from course.grader.judge import judge
from course.grader.worker import CapturedText, respond
from helpers import ROOT

FILES = sorted((Path(__file__).parent / "variants").glob("*.py"))
CPU_S = 0.5  # of an answer with all its calls: right ones need a tenth of it, on a busy machine more
ENDLESS = "it does not end"
TITLE = re.compile(r"^# %%(.*)\n", re.MULTILINE)
WORDS = re.compile(r" (\w+) (right|wrong|plain)(?:: (\S.*))?")
LINE = re.compile(r"# (.+?): (`.*`)")
CHANGE = re.compile(r"`([^`]+)` -> `([^`]*)`")
EACH = re.compile(r"(?m)^.*### (BEGIN|END) SOLUTION.*\n?")


@dataclass(frozen=True)
class Variant:
    """One answer to one question; `kind` is what marking ought to make of it."""

    lesson: str
    grade_id: str
    kind: str
    name: str
    source: str

    def __str__(self):
        return f"{self.grade_id} {self.kind}: {self.name}"


class Endless(KeyboardInterrupt):
    """The answer has used up its time; a KeyboardInterrupt passes through `respond`."""


class Lesson:
    """A lesson's own code cells with the model answers, and its tests by answer cell."""

    def __init__(self, name):
        source = ROOT / "lessons" / f"{name}.py"
        self.notebook = lessons.master(source.read_text())
        cells = self.notebook.cells
        self.tests = {
            grade_id.removesuffix("_test"): cells[index]
            for index, (grade_id, _) in lesson_cells.test_cells(self.notebook).items()
            if not re.search(r"conversion|loop\.|sharded\.|buckets\.|repairs\.", cells[index].source)  # these launch
        }
        self.cells = [
            (cell.metadata.get("nbgrader", {}).get("grade_id"), EACH.sub("", cell.source))
            for cell in cells
            if cell.cell_type == "code"
            and not (cell.metadata.get("nbgrader", {}).get("grade") and cell.metadata.nbgrader.locked)
            and not cell.source.startswith("%%")
            and "demo" not in cell.metadata.get("tags", ())
        ]
        self._codes = [(grade_id, compile(source, "<lesson>", "exec")) for grade_id, source in self.cells]
        self.model = dict(self.cells)

    def names(self, grade_id, source, alone=False, slip=None):
        """Return what is defined where that question's tests stand, `source` being the answer.

        It runs after the model answer, or `alone`. `slip` is a variant that answers an earlier question.
        """
        names = {"__name__": "__main__"}
        for own, code in self._codes:
            if own != grade_id or not alone:
                exec(code, names)
            if own == grade_id or (slip and own == slip.grade_id):
                answer = compile(source if own == grade_id else slip.source, "<answer>", "exec")
                with contextlib.suppress(Exception), contextlib.redirect_stdout(CapturedText()):
                    exec(answer, names)
            if own == grade_id:
                return names
        raise LookupError(f"there is no answer cell {grade_id}")

    def judged(self, grade_id, source, cpu_s=CPU_S, visible=False, **options):
        """Judge an answer by its question's tests, or by the visible ones; return the outcome."""
        test = self.tests[grade_id].source
        test = test.partition("### BEGIN HIDDEN TESTS")[0] if visible else test
        try:
            with time_limit(cpu_s), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a division by zero, for example
                names = self.names(grade_id, source, **options)
                return judge(test, partial(respond, names))
        except (Endless, SystemError):  # the latter is what Python 3.11 makes of it inside ast.parse
            return {"passed": False, "message": ENDLESS, "printed": ""}


@contextlib.contextmanager
def time_limit(cpu_s):
    """Raise `Endless` after seconds of computing, however busy the machine is."""

    def stop(*_):
        raise Endless

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def read(path):
    """Return the variants that a file holds."""
    _, *parts = TITLE.split(path.read_text())
    found = []
    for title, cell in zip(parts[::2], parts[1::2], strict=True):
        words = WORDS.fullmatch(title)
        assert words, f"{path.name}: '# %%{title}' is not `grade_id right|wrong|plain: name`"
        grade_id, kind, name = words.groups()
        model = lesson_of(path.stem).model[grade_id]
        answers = [(name, cell)] if name else listed(cell, model)
        found += [Variant(path.stem, grade_id, kind, *answer) for answer in answers]
    return found


def listed(cell, model):
    """Yield the name and the source of each answer: the model answer with a line's changes."""
    for line in filter(None, cell.replace("\n#     ", " ").splitlines()):
        match = LINE.fullmatch(line)
        assert match, f"not `name: `old` -> `new`, ...`: {line}"
        yield match[1], changed(model, CHANGE.findall(match[2]))


def changed(model, changes):
    """Return the model answer with all of the changes, each of something that stands there once."""
    for old, new in changes:
        assert model.count(old) == 1, f"the model answer has this {model.count(old)} times: {old}"
        model = model.replace(old, new)
    return model


lesson_of = cache(Lesson)


@cache
def outcome_of(variant):
    cpu_s = 10 * CPU_S if variant.kind == "right" else CPU_S
    return lesson_of(variant.lesson).judged(variant.grade_id, variant.source, cpu_s)


@cache
def variants():
    """Return all variants; collecting needs only their titles."""
    return [variant for path in FILES for variant in read(path)]


GRADE_IDS = dict.fromkeys(title.split()[0] for path in FILES for title in TITLE.findall(path.read_text()))
each_lesson = pytest.mark.parametrize("name", [path.stem for path in FILES])


@pytest.mark.parametrize("grade_id", GRADE_IDS)
def test_right_answers_pass_and_wrong_ones_do_not(grade_id):
    misjudged = [
        f"{variant}: {outcome['message'] or 'passed'}"
        for variant in variants()
        if variant.grade_id == grade_id
        and (outcome := outcome_of(variant))
        and (outcome["passed"] != (variant.kind == "right") or "NameError" in outcome["message"])
    ]  # a slip of the pen is no wrong answer
    assert not misjudged, "\n".join(misjudged)


def test_check_says_what_is_wrong():
    """Only words matched to letters would be given away by a sentence."""
    unsaid = {v.grade_id for v in variants() if v.kind != "right" and visible_outcome(v)["passed"]}
    assert unsaid == {"q07_bugs"}


def visible_outcome(variant):
    lesson = lesson_of(variant.lesson)
    return lesson.judged(variant.grade_id, variant.source, visible=True)


@each_lesson
def test_slip_in_one_question_costs_no_other(name):
    """The model answers to all later questions pass after each wrong one."""
    lesson = lesson_of(name)
    questions = [grade_id for grade_id, _ in lesson.cells if grade_id in lesson.tests]
    lost = [
        f"{variant} costs {later}"
        for variant in variants()
        if variant.lesson == name and variant.kind != "right" and outcome_of(variant)["message"] != ENDLESS
        for later in questions[questions.index(variant.grade_id) + 1 :]
        if not lesson.judged(later, "", slip=variant)["passed"]
    ]
    assert not lost, "\n".join(lost)


@each_lesson
def test_unanswered_question_fails(name):
    lesson = lesson_of(name)
    handed_out = {
        cell.metadata.nbgrader.grade_id: cell.source
        for cell in lessons.release(lesson.notebook).cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    judged = {question: lesson.judged(question, handed_out[question], alone=True) for question in lesson.tests}
    assert [question for question, outcome in judged.items() if outcome["passed"]] == []


def test_every_question_has_right_and_wrong_answers():
    tested = [path.stem for path in lessons.sources(ROOT) if "### BEGIN HIDDEN TESTS" in path.read_text()]
    questions = {(name, grade_id) for name in tested for grade_id in lesson_of(name).tests}
    for kind in ("right", "wrong"):
        assert questions == {(v.lesson, v.grade_id) for v in variants() if (v.kind == "right") == (kind == "right")}


RECAST = """
import functools as _functools, numpy as _numpy

def _recast(value):
    match value:
        case bool() | int() | str():
            return _numpy.asarray(value)[()]
        case tuple():
            return [*map(_recast, value)]
        case list():
            return (*map(_recast, value),)
    return _single(value)

def _single(value):
    match value:
        case float():
            return _numpy.float32(value)
        case _numpy.ndarray() if value.dtype == float:
            return value.astype(_numpy.float32)
        case tuple() | list():
            return type(value)(map(_single, value))
        case dict():
            return {key: _single(item) for key, item in value.items()}
    return value

def _generator(value):
    return (item for item in value) if isinstance(value, list) else value

def _recasting(function, recast):
    def recasting(*args, **kwargs):
        if recast is _single:
            args, kwargs = _single(args), _single(kwargs)
        return recast(function(*args, **kwargs))

    return _functools.wraps(function)(recasting)
"""
EXACT = {"q04_best"}  # asked for is one of a dictionary's keys


@pytest.mark.slow("lessons/*")
@pytest.mark.parametrize("recast", ["_recast", "_single", "_generator"])
@each_lesson
def test_answers_of_other_types_pass(name, recast):
    """NumPy's scalars, single precision (also inside), lists for tuples and the other way round, generators."""
    lesson, refused = lesson_of(name), {}
    for grade_id in lesson.tests.keys() - EXACT:
        model = lesson.model[grade_id]
        defined = [(node, getattr(node, "name", "")) for node in ast.parse(model).body]
        lines = [f"{function} = _recasting({function}, {recast})" for _, function in defined if function]
        lines += [f"{node.targets[0].id} = {recast}({node.targets[0].id})" for node, _ in defined if is_value(node)]
        outcome = lesson.judged(grade_id, "\n".join([model, RECAST, *lines]), cpu_s=10 * CPU_S)
        refused |= {} if outcome["passed"] else {grade_id: outcome["message"]}
    assert refused == {}


def is_value(statement):
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)


def test_common_wrong_answers_in_the_guide_are_tested():
    page = (ROOT / "docs" / "wrong-answers.md").read_text()
    rows = re.findall(r"^\| (\d[a-z]?), `(\w+)` \| ([^|]+) \|", page, re.MULTILINE)
    assert {lesson[0] for lesson, *_ in rows} == {"1", "2", "3", "4", "5", "6"}
    wrong = {
        (variant.lesson.partition(".")[0], variant.grade_id, variant.name)
        for variant in variants()
        if variant.kind != "right"
    }
    launched = {row for row in rows if row[:2] not in {one[:2] for one in wrong}}  # test_sharded.py judges these
    assert set(rows) - launched <= wrong and {lesson[0] for lesson, *_ in launched} == {"6"}
