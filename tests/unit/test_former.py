"""Notebooks that were saved with release 0.2 still run: what they import is found where it is now."""

import importlib

import pytest

import ddl
from ddl import former

# What the lessons of release 0.2 imported, besides names of `ddl` that are there still.
MODULES = {
    "ddl.analysis.challenge": "ablations best_of judged",
    "ddl.analysis.paired": "by_seed paired",
    "ddl.analysis.ring": "all_reduce exchange",
    "ddl.analysis.sharpness": "MEASURES rank_correlation sharpness",
    "ddl.challenge.build": "BASELINE",
    "ddl.challenge.rules": "GLOBAL_BATCH Refused",
    "ddl.data.augment": "augment",
    "ddl.training.recipes": "REFERENCE_BATCH",
    "ddl.training.schedule": "Schedule",
}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_the_one_that_took_its_place(module):
    space = {}
    exec(f"from {module} import {', '.join(MODULES[module].split())}", space)
    now = importlib.import_module(former.present_name(module))
    assert importlib.import_module(module) is now and now.__spec__.name == now.__name__ != module
    for name in MODULES[module].split():
        assert space[name] is getattr(now, name)


def test_names_of_the_package_are_those_of_the_course():
    for name in former.NAMES - set(former.PACKAGES):
        exec(f"from ddl import {name}")
    from ddl import data, plot

    assert (data.__name__, plot.__name__) == ("course.data", "course.plot") and callable(plot.plot_cost)


def test_a_former_module_takes_no_other_ones_place():
    for module in MODULES:
        importlib.import_module(module)
    assert importlib.import_module("course").challenge is importlib.import_module("course.challenge")


def test_what_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("ddl.analysis.nonsense")
    with pytest.raises(AttributeError):
        ddl.nonsense  # noqa: B018
