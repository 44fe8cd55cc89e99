"""Which Python a set-up uses, and what it says where there is none."""

import subprocess
import sys

import pytest

from helpers import ROOT

HERE = f'exec "{sys.executable}" "$@"'
OTHER = "exit 0"  # runs, but is not 3.11: prints no path
SHIM = "echo 'not installed in this version' >&2; exit 127"


@pytest.fixture
def find(tmp_path):
    """A function that runs tools/python.sh on a machine that has just the given programs."""

    def run(*, system="Linux", machine="x86_64", variables=None, **scripts):
        scripts["uname"] = f'[ "$1" = -s ] && echo {system} || echo {machine}'
        for name, text in scripts.items():
            path = tmp_path / "bin" / name.replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        return subprocess.run(
            ["/bin/sh", ROOT / "tools" / "python.sh", tmp_path / "venv"],
            env={"PATH": str(tmp_path / "bin"), **(variables or {})},
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture
def venv(tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    return tmp_path / "venv" / "bin" / "python"


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ({"system": "Darwin", "python3_11": HERE}, ["Darwin on x86_64", "WSL", "container"]),
        ({"machine": "aarch64", "python3_11": HERE}, ["Linux on aarch64", "WSL", "container"]),
        (
            {"python3_11": SHIM, "python3": OTHER},
            ["Python 3.11", "apt install python3.11", "uv python", "conda", "PYTHON="],
        ),
        ({"python3_11": HERE, "variables": {"PYTHON": "/bin/false"}}, ["/bin/false"]),
    ],
)
def test_a_machine_without_the_right_python_is_told_what_to_do_in_one_line(find, machine, words):
    result = find(**machine)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith("set-up: ") and result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words)


@pytest.mark.parametrize(
    "machine",
    [
        {"python3_11": SHIM, "python3": HERE},
        {"python3": OTHER, "uv": f"echo '{sys.executable}'"},
        {"python3_11": "echo wrong", "variables": {"PYTHON": sys.executable}},
    ],
    ids=["python3", "uv", "PYTHON"],
)
def test_any_python_counts_that_is_3_11(find, machine):
    assert find(**machine).stdout.strip() == sys.executable


def test_the_environment_that_is_there_goes_first_unless_its_python_is_gone(find, venv, tmp_path):
    venv.symlink_to(sys.executable)
    assert find(python3_11="echo wrong").stdout.strip() == str(venv)
    venv.unlink()
    venv.symlink_to(tmp_path / "gone")
    assert find(python3_11=HERE).stdout.strip() == sys.executable
