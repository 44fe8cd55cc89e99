"""Every test runs in one of two sessions, and either can fail."""

import sys

import pytest

import every_test

SESSION = "import sys; print('ran', *sys.argv[1:], flush=True); sys.exit({fails!r} in sys.argv)"


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    """A function that runs a stack's sessions, of which one fails: the status, and what they ran."""

    def main(stack, fails):
        session = [sys.executable, "-c", SESSION.format(fails=fails)]
        monkeypatch.setattr(every_test.stack, "name", lambda: stack)
        monkeypatch.setattr(every_test, "LOG", tmp_path / "build" / "beside.log")
        monkeypatch.setattr(every_test, "PYTEST", session)
        monkeypatch.setattr(every_test, "NEXT_LESSON", [*session, "lesson"])
        status = every_test.main(["-q"])
        return status, [line for line in capfd.readouterr().out.splitlines() if line.startswith("ran")]

    return main


@pytest.mark.parametrize(("fails", "status"), [("tests/setup", 1), ("--ignore=tests/setup", 1), ("neither", 0)])
def test_both_are_shown_and_a_failure_of_either_is_one(run, fails, status):
    first = every_test.FIRST
    assert all((every_test.ROOT / folder).is_dir() for folder in first)
    rest = " ".join(f"--ignore={folder}" for folder in first)
    assert run("default", fails) == (status, [f"ran -q {rest}", f"ran -q {' '.join(first)}"])


@pytest.mark.parametrize(("fails", "status"), [("tests/unit/training", 1), ("lesson", 1), ("neither", 0)])
def test_the_next_stack_has_a_selection_and_a_lesson(run, fails, status):
    failed, (tests, lesson) = run("next", fails)
    assert (failed, lesson) == (status, "ran lesson")
    assert tests.split()[1] == "-q" and all((every_test.ROOT / path).exists() for path in tests.split()[2:])
