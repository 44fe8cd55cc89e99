"""Every test runs in one of two sessions, and either can fail."""

import sys

import pytest

import two_sessions

SESSION = "import sys; print('ran', *sys.argv[1:], flush=True); sys.exit({fails!r} in sys.argv)"


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    """A function that runs a stack's sessions, of which one fails: the status, and what they ran."""

    def main(stack, fails, *options):
        session = [sys.executable, "-c", SESSION.format(fails=fails)]
        monkeypatch.setattr(two_sessions.stack, "name", lambda: stack)
        monkeypatch.setattr(two_sessions, "LOG", tmp_path / "build" / "beside.log")
        monkeypatch.setattr(two_sessions, "PYTEST", session)
        monkeypatch.setattr(two_sessions, "NEXT_LESSON", [*session, "lesson"])
        status = two_sessions.main([*options, "-q"])
        return status, [line for line in capfd.readouterr().out.splitlines() if line.startswith("ran")]

    return main


@pytest.mark.parametrize(("fails", "status"), [("tests/setup", 1), ("--ignore=tests/setup", 1), ("neither", 0)])
def test_both_are_shown_and_a_failure_of_either_is_one(run, fails, status):
    first = two_sessions.FIRST_OF_EVERY
    assert all((two_sessions.ROOT / folder).is_dir() for folder in first)
    rest = " ".join(f"--ignore={folder}" for folder in first)
    every = "ran " + " ".join(two_sessions.EVERY)
    assert run("default", fails, "--all") == (status, [f"{every} -q {rest}", f"{every} -q {' '.join(first)}"])


@pytest.mark.parametrize("stack", ["default", "next"])
@pytest.mark.parametrize(("fails", "status"), [("tests/launch", 1), ("--ignore=tests/launch", 1), ("neither", 0)])
def test_so_are_the_fast_tests_on_either_stack(run, stack, fails, status):
    assert two_sessions.FIRST_OF_FAST == ["tests/launch"] and (two_sessions.ROOT / "tests/launch").is_dir()
    fast = "ran " + " ".join(two_sessions.FAST)
    assert run(stack, fails) == (status, [f"{fast} -q --ignore=tests/launch", f"{fast} -q tests/launch"])


@pytest.mark.parametrize(("fails", "status"), [("tests/unit/training", 1), ("lesson", 1), ("neither", 0)])
def test_the_next_stack_has_a_selection_and_a_lesson(run, fails, status):
    failed, (tests, lesson) = run("next", fails, "--all")
    assert (failed, lesson) == (status, "ran lesson")
    paths = tests.split(" -q ")[1].split()
    assert paths and all((two_sessions.ROOT / path).exists() for path in paths)
