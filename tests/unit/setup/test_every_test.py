"""Every test runs in one of two sessions, and either can fail."""

import sys

import pytest

import every_test

SESSION = "import sys; print('ran', *sys.argv[1:], flush=True); sys.exit({fails!r} in sys.argv)"


@pytest.fixture(autouse=True)
def default_stack(monkeypatch):
    monkeypatch.setattr(every_test.stack, "name", lambda: "default")


@pytest.mark.parametrize(("fails", "status"), [("tests/setup", 1), ("--ignore=tests/setup", 1), ("neither", 0)])
def test_both_are_shown_and_a_failure_of_either_is_one(monkeypatch, capfd, fails, status):
    monkeypatch.setattr(every_test, "PYTEST", [sys.executable, "-c", SESSION.format(fails=fails)])
    assert every_test.main(["-q"]) == status
    shown = capfd.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("ran")] == [
        "ran -q --ignore=tests/grading --ignore=tests/setup --ignore=tests/slurm",
        "ran -q tests/grading tests/setup tests/slurm",
    ]


@pytest.mark.parametrize(("fails", "status"), [("tests/unit/training", 1), ("lesson", 1), ("neither", 0)])
def test_the_next_stack_has_a_selection_and_a_lesson_whatever_failed_before(monkeypatch, capfd, fails, status):
    session = [sys.executable, "-c", SESSION.format(fails=fails)]
    monkeypatch.setattr(every_test.stack, "name", lambda: "next")
    monkeypatch.setattr(every_test, "PYTEST", session)
    monkeypatch.setattr(every_test, "NEXT_LESSON", [*session, "lesson"])
    assert every_test.main(["-q"]) == status
    tests, lesson = capfd.readouterr().out.splitlines()
    assert tests.split()[1] == "-q" and lesson == "ran lesson"
    assert all((every_test.ROOT / path).exists() for path in tests.split()[2:])
