"""The files that say what is installed and what `make` does agree with one another."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from helpers import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = {"cpu": "requirements.lock", "gpu": "requirements-gpu.lock"}


def pins(requirements):
    """The packages of exact requirements with their versions, extras in brackets left out."""
    split = [re.fullmatch(r"([a-z0-9-]+)(?:\[[a-z-]+\])?==([\w.]+)", text) for text in requirements]
    assert all(split), requirements
    return {match[1]: match[2] for match in split}


def direct(accelerator):
    extras = [pin for name in (accelerator, "test", "lint", "hub", "build") for pin in EXTRAS[name]]
    return pins(PROJECT["dependencies"] + extras)


def locked(accelerator):
    text = (ROOT / LOCKS[accelerator]).read_text()
    return pins(re.findall(r"^([^\s#]+) \\$", text, re.MULTILINE))


@pytest.mark.parametrize("accelerator", LOCKS)
def test_locks_pin_every_direct_dependency_as_pyproject_does(accelerator):
    assert direct(accelerator).items() <= locked(accelerator).items()


def test_locks_differ_in_tensorflow_and_cuda_only():
    differing = dict(locked("cpu").items() ^ locked("gpu").items())
    assert {re.sub("^nvidia-.*", "nvidia", name) for name in differing} == {"tensorflow", "tensorflow-cpu", "nvidia"}


@pytest.mark.parametrize("name", LOCKS.values())
def test_everything_locked_has_hashes_and_no_address(name):
    text = (ROOT / name).read_text()
    assert "://" not in text
    for line in text.splitlines():
        assert re.fullmatch(
            r"[a-z0-9-]+==[\w.+]+ \\"  # a package …
            r"|    --hash=sha256:[0-9a-f]{64}(?: \\)?"  # … its hashes …
            r"|    # +(?:via)?[\w .()-]*",  # … and who asked for it
            line,
        ), line
    for package in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in package, package


def test_conda_users_get_the_same_versions():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [item for item in environment["dependencies"] if isinstance(item, str)]
    (pip,) = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    wanted = direct("cpu")
    del wanted["horovod"]  # compiled afterwards, as the file says
    assert pins(pip) == wanted
    assert f"python={PROJECT['requires-python'].removeprefix('==').removesuffix('.*')}" in conda
    assert {"cxx-compiler", "make", "pip"} <= set(conda)


def test_every_direct_dependency_has_its_reason_once():
    text = (ROOT / "pyproject.toml").read_text()
    section = text[text.index("dependencies = [") : text.index("[project.optional")]
    assert re.findall(r'^ +".*",\s*$', section, re.MULTILINE) == []


def test_the_readme_says_of_every_direct_dependency_why():
    table = (ROOT / "README.md").read_text().split("\n## Dependencies\n")[1].split("\n## ")[0]
    named = {
        re.sub(r"\(.*?\)| [\d.]+$", "", name)
        for row in re.findall(r"^\| (.*?) \|", table, re.M)
        for name in row.split(", ")
    }
    assert direct("cpu").keys() <= {name + "-cpu" * (name == "tensorflow") for name in named}


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE))
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)).split())
    shown = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [re.fullmatch(r"  make (\S+) +(\S.*)", line) for line in shown.splitlines()]
    assert all(lines), shown
    assert {line[1] for line in lines} == targets == phony


def test_a_finished_set_up_does_nothing():
    stamps = Path(sys.prefix) / "ddl-setup"
    before = {path: path.stat().st_mtime_ns for path in stamps.iterdir()}
    result = subprocess.run(["make", "-s", "setup", f"VENV={sys.prefix}"], cwd=ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert {path: path.stat().st_mtime_ns for path in stamps.iterdir()} == before


def test_scripts_parse():
    for shell, path in (("bash", ".ci/run"), ("sh", "tools/python.sh")):
        subprocess.run([shell, "-n", ROOT / path], check=True)


@pytest.mark.parametrize("name", ["a b", "it's", '"quoted"', "$HOME $x", "a?b#c%20", "`date`"])
def test_make_passes_a_courses_folder_on_whatever_it_is_called(name):
    planned = subprocess.run(
        ["make", "-n", "collect", "LESSON=1", f"COURSE={name}", f"FROM={name}", f"STUDENTS={name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    words = shlex.split(planned[planned.index("-m marking") :].replace("\\\n", " "))
    for option in ("--course", "--from", "--students"):
        assert words[words.index(option) + 1] == name
