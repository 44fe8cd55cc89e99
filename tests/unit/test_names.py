"""The package's public names."""

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
