"""The package's public names."""

import subprocess
import sys
from importlib import import_module

import pytest

import ddl


@pytest.mark.parametrize("name", ddl._HOME)
def test_a_public_name_is_not_hidden_by_a_module(name):
    import_module(f"ddl.{ddl._HOME[name]}")
    assert callable(getattr(ddl, name))


@pytest.mark.parametrize("name", ddl._MODULES)
def test_a_lessons_module_is_found_by_its_own_name(name):
    assert getattr(ddl, name) is import_module(f"ddl.{ddl._MODULES[name]}")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        ddl.nonsense  # noqa: B018


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, ddl, ddl.rank, ddl.launcher.run; "
        "print(sorted({'tensorflow', 'horovod', 'numpy', 'pandas', 'matplotlib'} & "
        "set(sys.modules)))"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert asked.stdout.strip() == "[]", asked.stderr
