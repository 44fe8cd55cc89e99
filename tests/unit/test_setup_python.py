"""Which Python a set-up uses, and what it says where there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def find(tmp_path):
    """Return a function that runs tools/python.sh on a machine that has just the given programs."""
    programs = tmp_path / "bin"
    programs.mkdir()

    def run(*, system="Linux", machine="x86_64", variables=None, venv="none", **scripts):
        scripts["uname"] = f'[ "$1" = -s ] && echo {system} || echo {machine}'
        for name, text in scripts.items():
            path = programs / name.replace("_", ".")
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        return subprocess.run(
            ["/bin/sh", ROOT / "tools" / "python.sh", venv],
            env={"PATH": str(programs), **(variables or {})},
            capture_output=True,
            text=True,
        )

    return run


def one_line(result):
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith("set-up: ") and result.stderr.count("\n") == 1
    return result.stderr


HERE = f'exec "{sys.executable}" "$@"'
OTHER = "exit 0"  # runs, but is not 3.11: prints no path
SHIM = "echo 'not installed in this version' >&2; exit 127"


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "x86_64"), ("Linux", "aarch64")])
def test_other_machines_are_pointed_to_wsl_and_containers(find, system, machine):
    said = one_line(find(system=system, machine=machine, python3_11=HERE))
    assert f"{system} on {machine}" in said and "WSL" in said and "container" in said


def test_missing_python_says_how_to_get_it(find):
    said = one_line(find(python3_11=SHIM, python3=OTHER))
    assert "Python 3.11" in said
    assert all(way in said for way in ("apt install python3.11", "uv python", "conda", "PYTHON="))


def test_python3_counts_if_it_is_3_11(find):
    assert find(python3_11=SHIM, python3=HERE).stdout.strip() == sys.executable


def test_uv_is_asked_last(find):
    assert find(python3=OTHER, uv=f"echo '{sys.executable}'").stdout.strip() == sys.executable


def test_the_environment_that_is_there_goes_first(find, tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    found = find(python3_11="echo wrong", venv=str(tmp_path / "venv")).stdout.strip()
    assert found == str(tmp_path / "venv" / "bin" / "python")


def test_an_environment_whose_python_is_gone_is_passed_over(find, tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(tmp_path / "gone")
    assert find(python3_11=HERE, venv=str(tmp_path / "venv")).stdout.strip() == sys.executable


def test_a_chosen_python_is_used_or_refused_by_name(find):
    chosen = {"PYTHON": sys.executable}
    assert find(variables=chosen).stdout.strip() == sys.executable
    assert "/bin/false" in one_line(find(python3_11=HERE, variables={"PYTHON": "/bin/false"}))
