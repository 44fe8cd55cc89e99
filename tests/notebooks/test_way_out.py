"""The end of lesson 3 works without PyTorch: it says how to get it, launches nothing and raises nothing."""

import jupytext

import ddl
from ddl.launcher import extras
from helpers import ROOT


def test_without_pytorch_the_way_out_says_how_to_get_it_and_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    cells = jupytext.read(ROOT / "grading/source/3.Multi-GPU/3.Multi-GPU.py", fmt="py:percent").cells
    first = next(number for number, cell in enumerate(cells) if cell.source.startswith("## 14. The same in PyTorch"))
    last = next(number for number, cell in enumerate(cells) if cell.source.startswith("## Your answers so far"))
    names = {"ddl": ddl, "difference": ddl.difference}
    for cell in cells[first:last]:
        if cell.cell_type == "code":
            exec(cell.source, names)
    assert capsys.readouterr().out == f"{extras.NO_TORCH}\n"
    assert "`make lab TORCH=1`" in extras.NO_TORCH
