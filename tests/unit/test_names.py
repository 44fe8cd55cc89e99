"""The packages' public names, which are imported on first use."""

import re
from collections import Counter
from importlib import import_module

import pytest

import course
import ddl
from course import challenge, plot
from helpers import ROOT


@pytest.mark.parametrize("package", [ddl, course, challenge], ids=lambda package: package.__name__)
def test_each_public_name_is_what_its_module_defines(package):
    assert set(package._HOME) <= set(package.__all__) <= set(dir(package))
    for name, home in package._HOME.items():
        module = import_module(f"{package.__name__}.{home}")
        # Also after the import: a module of the same name would be in its place.
        assert getattr(package, name) is getattr(module, name)
        with pytest.raises(ModuleNotFoundError):
            import_module(f"{package.__name__}.{name}")
    with pytest.raises(AttributeError, match="nonsense"):
        package.nonsense  # noqa: B018


def test_each_figure_is_one_modules():
    names = Counter(name for names in plot._MODULES.values() for name in names.split())
    assert [name for name, modules in names.items() if modules > 1] == []
    assert set(names) == set(plot.__all__)


def test_each_figure_of_the_index_exists_and_is_used():
    places = (ROOT / "lessons").glob("*.py")
    used = {name for path in places for name in re.findall(r"\bplot_\w+(?=\()|\bslider(?=\()", path.read_text())}
    for name in plot._HOME:
        assert callable(getattr(plot, name)) and name in used, f"no lesson shows {name}"
