"""Which Python a set-up uses, and what it says where there is none."""

import subprocess
import sys

import pytest

from helpers import ROOT


def of_version(minor):
    """A program that answers as a Python 3.`minor` in its place would."""
    program = f"import sys; text = sys.argv[1].replace('sys.version_info[:2]', '(3, {minor})')"
    program += "; exec(text.replace('sys.executable', repr(sys.argv[2])))"
    return f'exec "{sys.executable}" -S -c "{program}" "$2" "$0"'


OTHER = "exit 0"  # runs, and is none of these versions: prints no path
SHIM = "echo 'not installed in this version' >&2; exit 127"
NEXT = {"DDL_STACK": "next"}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def find(tmp_path):
    """A function that runs tools/python.sh on a machine that has just the given programs."""

    def run(*, system="Linux", machine="x86_64", variables=None, **scripts):
        scripts["uname"] = f'[ "$1" = -s ] && echo {system} || echo {machine}'
        for name, text in scripts.items():
            write(tmp_path / "bin" / name.replace("_", "."), text)
        return subprocess.run(
            ["/bin/sh", ROOT / "tools" / "python.sh", tmp_path / "venv"],
            env={"PATH": str(tmp_path / "bin"), **(variables or {})},
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ({"system": "Darwin", "python3_11": of_version(11)}, ["Darwin on x86_64", "WSL", "container"]),
        ({"machine": "aarch64", "python3_11": of_version(11)}, ["Linux on aarch64", "WSL", "container"]),
        (
            {"python3_11": SHIM, "python3": of_version(9)},
            ["Python 3.11", "apt install python3.11", "uv python", "-f environment.yml", "PYTHON="],
        ),
        ({"python3_11": of_version(11), "variables": {"PYTHON": "/bin/false"}}, ["/bin/false"]),
        (
            {"python3": of_version(9), "python3_14": of_version(14), "variables": NEXT},
            ["Python 3.10 to 3.13", "apt install python3 ", "uv python", "-f environment-next.yml", "PYTHON="],
        ),
    ],
)
def test_a_machine_without_the_right_python_is_told_what_to_do_in_one_line(find, machine, words):
    result = find(**machine)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith("set-up: ") and result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words)
    assert "STACK=next" not in result.stderr


@pytest.mark.parametrize("name, minor", [("python3", 13), ("python3.10", 10)])
def test_where_only_another_python_is_the_next_stack_is_offered_on_it(find, tmp_path, name, minor):
    result = find(**{name.replace(".", "_"): of_version(minor)})
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert f"On {tmp_path / 'bin' / name}, which is here, `make lab STACK=next` runs the same course" in result.stderr


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        ({"python3_11": SHIM, "python3": of_version(11)}, "python3"),
        ({"python3": of_version(12), "python3_11": of_version(11)}, "python3.11"),
        ({"python3": OTHER, "uv": 'echo "$0-3.11"', "uv-3_11": of_version(11)}, "uv-3.11"),
        ({"python3_11": "echo wrong", "other": of_version(11), "variables": {"PYTHON": "other"}}, "other"),
        *(({"python3": of_version(minor), "variables": NEXT}, "python3") for minor in (10, 11, 12, 13)),
        ({"python3": of_version(14), "python3_12": of_version(12), "variables": NEXT}, "python3.12"),
    ],
)
def test_any_python_counts_that_the_stack_runs_on(find, tmp_path, machine, found):
    assert find(**machine).stdout.strip() == str(tmp_path / "bin" / found)


def test_the_environment_that_is_there_goes_first_unless_its_python_is_gone(find, tmp_path):
    python = write(tmp_path / "venv" / "bin" / "python", of_version(11))
    assert find(python3_11="echo wrong").stdout.strip() == str(python)
    python.unlink()
    python.symlink_to(tmp_path / "gone")
    assert find(python3_11=of_version(11)).stdout.strip() == str(tmp_path / "bin" / "python3.11")


def test_the_next_stacks_environment_needs_not_be_asked_for_again(find, tmp_path):
    python = write(tmp_path / "venv" / "bin" / "python", of_version(13))
    write(tmp_path / "venv" / "ddl-setup" / "next", "")
    assert find(python3_11=of_version(11)).stdout.strip() == str(python)
