"""A symbol has one meaning in all lessons: each that a formula uses is in the table of symbols."""

import re

import jupytext
import pytest

import lessons
from helpers import ROOT

FORMULA = re.compile(r"\$\$?([^$]+)\$?\$")
WORDS = re.compile(r"\\(?:text|mathrm|operatorname)\{[^}]*\}")
NAMED = re.compile(r"[A-Za-z]_(?:\\(?:min|max)|\\text\{crit\})|\\beta_[12]")  # S_min, B_crit, beta_1
INDICES = {"i", "j", "l"}  # count ranks, points and layers


def formulas(text):
    return [formula for formula in FORMULA.findall(text) if len(formula) < 200]


def symbols(formula):
    """The symbols of a formula in TeX: those with a name below (S_min), and single letters."""
    named = {found[0].replace(" ", "") for found in NAMED.finditer(formula)}
    rest = WORDS.sub(" ", NAMED.sub(" ", re.sub(r"\\log_2", " ", formula)))
    rest = re.sub(r"_\{[^}]*\}|_\\?[A-Za-z0-9]+", " ", rest)  # other indices
    letters = set(re.findall(r"\\(?:alpha|beta|eta|gamma|lambda|sigma|tau|rho|kappa|mu|epsilon|delta|Sigma)\b", rest))
    letters |= set(re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", " ", rest)))
    return named | (letters - INDICES)


TABLE = (ROOT / "docs" / "glossary.md").read_text().partition("## Symbols")[2]
KNOWN = [symbol for row in re.findall(r"^\| (\$.*?) \|", TABLE, re.MULTILINE) for symbol in FORMULA.findall(row)]


def test_each_symbol_has_one_row():
    assert len(KNOWN) > 20 and len(set(KNOWN)) == len(KNOWN)


@pytest.mark.parametrize("source", lessons.sources(ROOT), ids=lambda source: source.stem)
def test_formulas_use_symbols_of_the_table(source):
    known = {symbol for formula in KNOWN for symbol in symbols(formula)}
    cells = jupytext.read(source, fmt="py:percent").cells
    used = {
        symbol: formula for cell in cells if cell.cell_type == "markdown"
        for formula in formulas(cell.source) for symbol in symbols(formula)
    }  # fmt: skip
    assert {symbol: formula for symbol, formula in used.items() if symbol not in known} == {}
