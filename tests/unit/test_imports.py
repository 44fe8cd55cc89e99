"""Light imports stay light: checked in one process, lightest first."""

import json
import sys

import pytest

MODELS = {"tensorflow", "horovod"}
TABLES = {"pandas", "matplotlib", "IPython"}
LATER = {"psutil", "importlib.metadata", "ddl.follow.run"}  # when ranks have started
LIGHT = {
    "ddl.start.one_host ddl.start.elastic ddl.start.worker": {"numpy", *MODELS, *TABLES, *LATER},
    "ddl ddl.rank ddl.cli ddl.start.launch": {"numpy", *MODELS, *TABLES, *LATER},
    "course.shared.ring course.shared.cost": {*MODELS, *TABLES},
    "course.data course.data.catalog": MODELS,
    "course.training.strategy course.multi_gpu.difference": MODELS,
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


OUTPUTS = {"imported": lambda _: ([sys.executable, "-c", PROBE, *LIGHT], {})}


@pytest.fixture(scope="module")
def imported(output_of):
    return json.loads(output_of("imported")[1])


@pytest.mark.parametrize("modules", LIGHT)
def test_nothing_heavier_is_imported_with(modules, imported):
    assert LIGHT[modules] & set(imported[modules]) == set()
