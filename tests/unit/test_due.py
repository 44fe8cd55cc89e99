"""Which tests continuous integration runs after which changes."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from helpers import ROOT
from tests.plugins import due


@pytest.fixture
def commit(tmp_path):
    """Return a function that commits a change of a file, so many hours later."""

    def git(*words, **dates):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True, env={**os.environ, **dates})

    def commit(file, hour, message="A change"):
        (tmp_path / file).write_text(str(hour))
        git("add", ".")
        date = f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:00:00Z"
        identity = ("-c", "user.name=a", "-c", "user.email=b")
        git(*identity, "commit", "-m", message, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)

    git("init", "-q")
    return commit


def test_changes_of_a_day_are_counted_back_to_a_full_check(commit, tmp_path):
    commit("old", 0)
    assert due.changed_files(tmp_path) == {"old": 0}
    for hour, file in ((30, "checked"), (40, "a"), (41, "b"), (42, "a")):
        commit(file, hour)
    assert {file: age for file, age in due.changed_files(tmp_path).items() if file.isalpha()} == {
        "a": 0, "b": 1, "checked": 3,
    }  # fmt: skip
    commit("c", 43, "C\n\nFull-check: HEAD~2")
    assert {"checked", "old"}.isdisjoint(due.changed_files(tmp_path))


def test_a_test_is_due_after_changes_of_what_it_looks_at():
    def age(path, mark, *patterns):
        item = SimpleNamespace(nodeid=f"{path}::test")
        item.iter_markers = lambda: [getattr(pytest.mark, mark)(*patterns).mark]
        item.get_closest_marker = lambda name: name == mark or None
        return due.age_of(item, {"lessons/4.py": 2, "lessons/5.py": 1, "tests/slurm/test_x.py": 4})

    assert age("tests/slurm/test_y.py", "slow", "lessons/*") == 1
    assert age("tests/slurm/test_x.py", "nightly") == 4
    assert age("tests/slurm/test_y.py", "slow", "tools/*") is None
    assert age("tests/launch/test_launch.py", "slow") == -1


def test_tests_after_one_that_was_left_out_run(tmp_path, monkeypatch):
    """The time for nightly tests is up after the first; a fixture that it leaves is torn down."""
    (tmp_path / "conftest.py").write_text("from tests.plugins import due\n\ndue.NIGHTLY_S = -1\n")
    fixture = "import pytest\n\n\n@pytest.fixture(scope='module')\ndef held():\n    yield\n\n\n"
    test = "@pytest.mark.{}\ndef test_{}(held):\n    pass\n\n\n"
    (tmp_path / "test_a.py").write_text(fixture + test.format("slow", "one") + test.format("nightly", "two"))
    (tmp_path / "test_b.py").write_text(fixture + test.format("slow", "three"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    line = [sys.executable, "-m", "pytest", "-q", "-p", "tests.plugins.due", "--minutes=1", "--rootdir=.", "-cnone.ini"]
    (tmp_path / "build").mkdir()
    (tmp_path / "none.ini").touch()
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "build" / "left-out.txt").read_text() == "test_a.py::test_two\n"
