import pytest

from made_machine import build


@pytest.fixture
def machine(tmp_path):
    return build(tmp_path / "machine")
