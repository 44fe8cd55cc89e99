"""Every test runs in one of two sessions, and either can fail."""

import sys

import pytest

import every_test

SESSION = "import sys; print('ran', *sys.argv[1:], flush=True); sys.exit({fails!r} in sys.argv)"
FIRST, SECOND = "tests/setup", "--ignore=tests/setup"


@pytest.mark.parametrize(("fails", "status"), [(FIRST, 1), (SECOND, 1), ("neither", 0)])
def test_both_are_shown_and_a_failure_of_either_is_one(monkeypatch, capfd, fails, status):
    monkeypatch.setattr(every_test, "PYTEST", [sys.executable, "-c", SESSION.format(fails=fails)])
    assert every_test.main() == status
    shown = capfd.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("ran")] == [
        "ran --ignore=tests/containers --ignore=tests/setup",
        "ran tests/containers tests/setup",
    ]
