"""Without PyTorch, lesson 3's notebook goes on."""

import jupytext

import course
import ddl
from ddl.records import stack as extras
from helpers import ROOT


def cells_of(name):
    return jupytext.read(ROOT / "lessons" / f"{name}.py", fmt="py:percent").cells


def test_section_without_pytorch_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    cells = cells_of("3b.Strategies-in-Depth")
    first = next(number for number, cell in enumerate(cells) if cell.source.startswith("## 6. The same in PyTorch"))
    last = next(number for number, cell in enumerate(cells) if cell.source.startswith("## Your answers so far"))
    names = {"ddl": ddl, "difference": course.difference}
    for cell in cells[first:last]:
        if cell.cell_type == "code":
            exec(cell.source, names)
    assert capsys.readouterr().out == f"{extras.NO_TORCH}\n"
    assert "`make lab TORCH=1`" in extras.NO_TORCH
