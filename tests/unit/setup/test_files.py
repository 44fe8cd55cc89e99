"""Consistency of the files for installation and `make`."""

import re
import subprocess
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement

from helpers import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = {"cpu": "requirements.lock", "gpu": "requirements-gpu.lock", "next": "requirements-next.lock"}
EXTRAS_OF = {  # linting and JupyterHub are for the default stack
    "cpu": ("default", "cpu", "test", "lint", "hub", "site", "build"),
    "gpu": ("default", "gpu", "nccl", "test", "lint", "hub", "site", "build"),
    "next": ("next", "test", "build"),
}
OLDEST, END = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
PYTHONS = {"cpu": ["3.11"], "gpu": ["3.11"], "next": [f"3.{minor}" for minor in range(OLDEST, END)]}


def pins(requirements, python="3.11"):
    """The packages that exact requirements pin for a Python, with their versions, extras in brackets left out."""
    requirements = [Requirement(text) for text in requirements]
    machine = {"sys_platform": "linux", "platform_machine": "x86_64", "implementation_name": "cpython"}
    machine |= {"platform_python_implementation": "CPython", "platform_system": "Linux", "os_name": "posix"}
    here = machine | {"python_version": python, "python_full_version": f"{python}.0"}
    wanted = [each for each in requirements if each.marker is None or each.marker.evaluate(here)]
    found = {each.name: str(each.specifier).removeprefix("==") for each in wanted}
    assert len(found) == len(wanted) and all(re.fullmatch(r"[\w.]+", version) for version in found.values())
    return found


def direct(lock, python="3.11"):
    return pins(PROJECT["dependencies"] + [pin for extra in EXTRAS_OF[lock] for pin in EXTRAS[extra]], python)


def locked(lock, python="3.11"):
    text = (ROOT / LOCKS[lock]).read_text()
    return pins(re.findall(r"^([^\s#].*) \\$", text, re.MULTILINE), python)


def test_locks_pin_every_direct_dependency_as_pyproject_does():
    for lock, pythons in PYTHONS.items():
        for python in pythons:
            assert direct(lock, python).items() <= locked(lock, python).items(), (lock, python)
        assert "://" not in (ROOT / LOCKS[lock]).read_text()


@pytest.mark.parametrize(
    "file, lock, python, later",  # what `make` adds afterward, as the files say
    [
        ("environment.yml", "cpu", "3.11", {"horovod"}),
        ("environment-next.yml", "next", "3.12", {"horovod", "tf-keras", "tensorflow-hub"}),
    ],
)
def test_conda_users_get_the_same_versions(file, lock, python, later):
    packages = yaml.safe_load((ROOT / file).read_text())["dependencies"]
    conda = [item for item in packages if isinstance(item, str)]
    (pip,) = [item["pip"] for item in packages if isinstance(item, dict)]
    wanted = direct(lock, python)
    assert pins(pip) == {name: version for name, version in wanted.items() if name not in later}
    assert {f"python={python}", "cxx-compiler", "make", "pip"} <= set(conda)


@pytest.mark.slow(".gitattributes")
def test_clone_with_converted_line_ends_keeps_those_of_linux(tmp_path):
    clone = tmp_path / "clone"
    command = ["git", "clone", "--quiet", "--depth=1", "-c", "core.autocrlf=true", f"file://{ROOT}", clone]
    subprocess.run(command, check=True)
    ends = subprocess.check_output(["git", "ls-files", "--eol"], cwd=clone, text=True)
    assert "w/crlf" not in ends
