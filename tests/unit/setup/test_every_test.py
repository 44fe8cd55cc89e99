"""Every test runs in one of two sessions, and either can fail."""

import sys

import pytest

import every_test

SESSION = "import sys; print('ran', *sys.argv[1:], flush=True); sys.exit({fails!r} in sys.argv)"


@pytest.mark.parametrize(("fails", "status"), [("tests/setup", 1), ("--ignore=tests/setup", 1), ("neither", 0)])
def test_both_are_shown_and_a_failure_of_either_is_one(monkeypatch, capfd, fails, status):
    monkeypatch.setattr(every_test, "PYTEST", [sys.executable, "-c", SESSION.format(fails=fails)])
    assert every_test.main(["-q"]) == status
    shown = capfd.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("ran")] == [
        "ran -q --ignore=tests/grading --ignore=tests/setup --ignore=tests/slurm",
        "ran -q tests/grading tests/setup tests/slurm",
    ]
