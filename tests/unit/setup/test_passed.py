"""What `make test` has seen pass, the full run leaves out, and nothing else."""

import os
import subprocess
import sys

import pytest

from helpers import ROOT

TESTS = """
import pytest
def test_passes(): pass
def test_skips(): pytest.skip("not here")
@pytest.fixture
def breaks():
    yield
    raise OSError
def test_breaks_afterwards(breaks): pass
@pytest.mark.parametrize("n", [1, 2])
def test_of_numbers(n): assert n == 1
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / ".gitignore").write_text("noted\n__pycache__\n.pytest_cache\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def names(folder, *options):
    """Run pytest there; return the names of the tests that it runs."""
    command = [sys.executable, "-m", "pytest", "-v", "--rootdir=.", "-p", "tests.plugins.passed", *options]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    return {
        line.split()[0].partition("::")[2] for line in done.stdout.splitlines() if line.startswith("test_some.py::")
    }


EVERY = {"test_passes", "test_skips", "test_breaks_afterwards", "test_of_numbers[1]", "test_of_numbers[2]"}


def test_what_passed_is_left_out_until_a_file_changes(folder):
    assert names(folder, "--note-passed=noted") == EVERY
    rest = EVERY - {"test_passes", "test_of_numbers[1]"}
    assert names(folder, "--leave-out-passed=noted") == rest
    (folder / "other.txt").write_text("new")
    assert names(folder, "--leave-out-passed=noted") == EVERY


def test_sessions_add_to_one_note(folder):
    names(folder, "--note-passed=noted", "-k", "passes")
    names(folder, "--note-passed=noted", "-k", "numbers")
    assert names(folder, "--leave-out-passed=noted") == EVERY - {"test_passes", "test_of_numbers[1]"}


def test_without_a_note_all_run(folder):
    assert names(folder, "--leave-out-passed=noted") == EVERY
