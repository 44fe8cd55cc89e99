"""Errors for Keras 3 and for a variable that would break the default stack."""

import pytest

from ddl.records import stack


@pytest.fixture
def here(monkeypatch):
    """Return a function that makes this process look like one of a stack."""

    def look_like(tensorflow, tf_keras, variable):
        monkeypatch.setattr(stack, "versions", lambda: {"tensorflow": tensorflow})
        monkeypatch.setattr(stack, "find_spec", lambda name: "there" if tf_keras else None)
        if variable is None:
            monkeypatch.delenv(stack.VARIABLE, raising=False)
        else:
            monkeypatch.setenv(stack.VARIABLE, variable)

    return look_like


@pytest.mark.parametrize(
    "tensorflow, tf_keras, variable, name, advice",
    [
        ("2.15.1", False, None, "default", ""),
        ("2.15.1", True, "1", "default", ""),
        ("2.15.1", False, "1", "default", "unset"),
        ("2.22.0rc0", True, "1", "next", ""),
        ("2.21.0", True, None, "next", "TF_USE_LEGACY_KERAS=1"),
        ("2.21.0", False, "1", "next", "make setup STACK=next"),
        (None, False, None, "default", ""),
    ],
)
def test_wrong_keras_is_refused(here, tensorflow, tf_keras, variable, name, advice):
    here(tensorflow, tf_keras, variable)
    assert stack.name() == name
    if advice:
        with pytest.raises(stack.WrongKeras, match=advice):
            stack.require_keras_2()
    else:
        stack.require_keras_2()
