"""The image recipes: what they agree on, and what `make image` and `make sif` call."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers import ROOT, program

FOLDER = ROOT / "containers"
DOCKERFILE = (FOLDER / "Dockerfile").read_text().replace("\\\n", " ")
SINGULARITY = (FOLDER / "Singularity.def").read_text()
GPU_BASE = "nvcr.io/nvidia/tensorflow:24.03-tf2-py3"


def instructions(name):
    """The arguments of one kind of instruction in the Dockerfile."""
    return re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.M)


def section(name):
    """The lines of one section of the Singularity recipe."""
    found = re.search(rf"^%{name}\n((?:    .*\n|\n)*)", SINGULARITY, re.M)
    return [line.strip() for line in found[1].splitlines() if line.strip()]


def copied():
    """Files of the image, as {target: source}."""
    pairs = {}
    for *sources, target in map(str.split, instructions("COPY")):
        for source in sources:
            is_file = (ROOT / source).is_file()
            pairs[f"{target}{Path(source).name}" if is_file else target.rstrip("/")] = source
    for early in ("containers/install.sh", "source_code/pyproject.toml"):  # and once more with its folder
        del pairs[f"/course/{early}"]
    return pairs


def test_image_recipes_copy_the_same_files():
    assert dict(reversed(line.split()) for line in section("files")) == copied()
    ignore = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] != "#"]
    assert ignore[0] == "*"
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    assert set(copied().values()) == let_in
    kept_out = {"grading", "tests", "runs", "build", "benchmarks"}
    assert not {source.split("/")[0] for source in copied().values()} & kept_out
    assert not [source for source in copied().values() if source.startswith(".")]


def test_image_recipes_share_base_and_steps():
    assert f"BASE={GPU_BASE}" in instructions("ARG")
    assert section("arguments") == [f"BASE={GPU_BASE}", "STACK=default"] and "STACK=default" in instructions("ARG")
    runs = [re.sub(r"--mount=\S+ +", "", run) for run in instructions("RUN")]
    same = [run.replace("/run/secrets/ca", "/mnt/ca.crt").replace("${STACK}", "{{ STACK }}") for run in runs]
    assert same == section("post")
    steps = re.findall(r"^(\w+)\(\) \{$", (FOLDER / "install.sh").read_text(), re.M)
    assert {run.split()[-1] for run in runs} <= set(steps)


def test_image_recipes_share_start_and_environment():
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["tini", "--", "start-course"]
    assert section("runscript") == ['exec start-course "$@"']
    settings = [word for line in instructions("ENV") for word in shlex.split(line)]
    docker = dict(word.split("=", 1) for word in settings)
    for name in ("HOME", "USER", "CUDA_CACHE_PATH"):
        del docker[name]  # Singularity's are the caller's own
    exports = [line.removeprefix("export ") for line in section("environment")]
    singularity = dict(line.split("=", 1) for line in exports)
    assert docker.pop("DDL_IMAGE") == "${TAG}" and singularity.pop("DDL_IMAGE")
    assert docker.pop("PATH") == "/opt/ddl/bin:${PATH}"
    assert singularity.pop("PATH") == "/opt/ddl/bin:$PATH"
    assert docker == singularity


# make image, make sif


@pytest.fixture
def make(tmp_path):
    """Return a function that runs `make` where only these builders are, and they only record."""

    def run(*arguments, there=(), silent=()):
        programs, record = tmp_path / "bin", tmp_path / "record"
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir()
        for name in ("make", "sh", "env", "id", "mktemp", "rm", "cp", "cat"):
            (programs / name).symlink_to(shutil.which(name, path=f"{os.defpath}:/usr/bin"))
        for name in (*there, *silent):
            answer = "exit 1" if name in silent else "exit 0"
            text = f"""#!/bin/sh
                case $1 in info | version) {answer} ;; esac
                printf '%s\\n' {name} "$@" > {record}
                for word in "$@"; do
                    case $word in /*:/mnt) cat "${{word%:/mnt}}/ca.crt" >> {record} ;; esac
                done
            """
            program(programs / name, text)
        done = subprocess.run(
            ["make", *arguments], cwd=ROOT, text=True, capture_output=True,
            env={"PATH": str(programs), "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        return done, record.read_text().splitlines() if record.exists() else None

    return run


DOCKER = "build --file containers/Dockerfile --tag ddl-course --build-arg TAG=ddl-course".split()
NAMED_NEXT = [word.replace("ddl-course", "ddl-course-next") for word in DOCKER]
NEXT = ["--build-arg", "STACK=next"]
CPU = ["--build-arg", "BASE=debian:bookworm"]
FAKEROOT = [] if os.geteuid() == 0 else ["--fakeroot"]


@pytest.mark.parametrize(
    ("arguments", "there", "silent", "command"),
    [
        (["image"], ["docker", "podman", "buildah"], [], ["docker", *DOCKER, "."]),
        # A Docker whose daemon does not answer is passed by.
        (["image", CPU[1]], ["buildah"], ["docker"], ["buildah", *DOCKER, *CPU, "--format", "docker", "."]),
        (["image", "BUILDER=podman"], ["docker", "podman"], [], ["podman", *DOCKER, "--format", "docker", "."]),
        (["image", "STACK=next"], ["docker"], [], ["docker", *NAMED_NEXT, *CPU, *NEXT, "."]),
        (
            ["sif", "STACK=next"],
            ["apptainer", "singularity"],
            [],
            ["apptainer", "build", *FAKEROOT, *CPU, *NEXT, "ddl-course-next.sif", "containers/Singularity.def"],
        ),
    ],
)
def test_image_is_built_with_an_available_builder(make, arguments, there, silent, command):
    done, record = make(*arguments, there=there, silent=silent)
    assert (done.returncode, record) == (0, command)
