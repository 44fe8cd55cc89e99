"""What is light to import stays light: all asked of one process, the lightest first."""

import json
import sys

import pytest

MODELS = {"tensorflow", "horovod"}
TABLES = {"pandas", "matplotlib", "IPython"}
# What every rank pays for before it asks a template for a fork.
STUB = {"dataclasses", "hashlib", "inspect", "pathlib", "psutil", "subprocess", "typing"}
LIGHT = {
    "ddl.rank.proxy": {"numpy", *STUB, *MODELS, *TABLES},
    "ddl ddl.rank ddl.launcher.run": {"numpy", *MODELS, *TABLES},
    "ddl.analysis.ring ddl.analysis.cost": {*MODELS, *TABLES},
    "ddl.data ddl.data.catalogue": MODELS,
    "ddl.analysis.classification ddl.plot.classification": MODELS,
    "ddl.training.strategy ddl.analysis.difference ddl.plot.strategies": MODELS,
}
PROBE = """
import importlib, json, sys
imported = {}
for modules in sys.argv[1:]:
    for module in modules.split():
        importlib.import_module(module)
    imported[modules] = list(sys.modules)
print(json.dumps(imported))
"""


BESIDE = {"imported": lambda _: ([sys.executable, "-c", PROBE, *LIGHT], {})}


@pytest.fixture(scope="module")
def imported(beside):
    return json.loads(beside("imported")[1])


@pytest.mark.parametrize("modules", LIGHT)
def test_nothing_heavier_is_imported_with(modules, imported):
    assert LIGHT[modules] & set(imported[modules]) == set()
