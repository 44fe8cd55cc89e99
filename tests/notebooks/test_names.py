"""Names that lessons read from the course, the tool and `plot` exist, also in a branch that no test executes."""

import ast
from importlib import import_module
from types import ModuleType

import jupytext
import pytest

import lessons
from helpers import ROOT

PACKAGES = ("course", "ddl")


def missing(code):
    """Return the names that code reads from the two packages and that these don't have."""
    tree, known, lacking = ast.parse(code), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            for alias in node.names:
                try:
                    known[alias.asname or alias.name] = _inside(import_module(node.module), alias.name)
                except (AttributeError, ModuleNotFoundError):
                    lacking.append(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            names = (alias for alias in node.names if alias.name.partition(".")[0] in PACKAGES)
            known |= {alias.asname or alias.name.partition(".")[0]: import_module(alias.name) for alias in names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = known.get(node.value.id)
            if isinstance(owner, ModuleType) and not hasattr(owner, node.attr):
                lacking.append(f"{owner.__name__}.{node.attr}")
    return lacking


def _inside(module, name):
    try:
        return getattr(module, name)
    except AttributeError:
        return import_module(f"{module.__name__}.{name}")


def code_of(source):
    """Return the Python of a lesson's cells; magics and cells in another language are left out."""
    cells = jupytext.read(source, fmt="py:percent").cells
    sources = [cell.source for cell in cells if cell.cell_type == "code" and not cell.source.startswith("%%")]
    lines = [line for text in sources for line in text.splitlines()]
    return "\n".join("pass" if line.startswith(("%", "!")) else line for line in lines)


@pytest.mark.parametrize("source", lessons.sources(ROOT), ids=lambda source: source.stem)
def test_lesson_reads_only_names_that_exist(source):
    assert missing(code_of(source)) == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("from course import plot\nplot.plot_of_nothing()", "course.plot.plot_of_nothing"),
        ("from ddl import lunch", "ddl.lunch"),
        ("from course.shared import ring\nif 0:\n    ring.rnig()", "course.shared.ring.rnig"),
        ("from course.nowhere import x", "course.nowhere.x"),
    ],
)
def test_forgotten_name_is_found(code, name):
    assert missing(code) == [name]
