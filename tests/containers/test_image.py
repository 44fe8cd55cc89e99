"""The image as attendees get it: a working course, without maintainers' files."""

import contextlib
import json
import os
import re
import subprocess

import pytest

from helpers import ROOT, SETTING_UP, free_port, http_status

pytestmark = [pytest.mark.nightly("containers/*", *SETTING_UP), pytest.mark.timeout(1200)]


# Tests of what runs do with the system. The rest computes, with the same versions as outside.
SYSTEM = [f"tests/unit/{room}" for room in ("diagnose", "start")]
SYSTEM += [f"tests/launch/test_{name}.py" for name in ("horovod", "launch")]
SYSTEM += ["tests/launch/test_cluster.py::test_every_rank_knows_its_task"]
SYSTEM += [
    f"tests/launch/test_fork_server.py::test_{name}"
    for name in ("rank_ends_like_an_interpreter", "all_processes_end_with_the_run")
]


@pytest.fixture
def own_folder(tmp_path):
    """Return a function that makes a folder which belongs to the user in the container."""

    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        os.chown(folder, 4242, 4242)
        return folder

    return make


# What is inside


def test_image_holds_only_attendee_files(image):
    course = image.files / "course"
    recipe = (ROOT / "containers" / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (.*) \S+$", recipe, re.M)
    wanted = {name.split("/")[0] for line in copied for name in line.split()}
    assert {entry.name for entry in course.iterdir()} == wanted | {"runs"}
    assert {"setup.sh", "horovod_source.sh", "include"} == {entry.name for entry in (course / "tools").iterdir()}
    texts = {path: path.read_bytes() for path in course.rglob("*") if path.is_file()}
    assert len(texts) > 50
    # At the start of a line, of a notebook's too: the package names these marks within its lines.
    marks = re.compile(rb"^[\s\"]*(### BEGIN (HIDDEN TESTS|SOLUTION)|=== BEGIN MARK)", re.M)
    assert [path for path, text in texts.items() if marks.search(text)] == []


def test_image_keeps_no_build_files_or_certificates(image):
    """Neither caches, nor the compiler, nor the certificates that the downloads went through."""
    left = [
        path
        for place in ("tmp", "var/tmp", "root/.cache", "var/lib/apt/lists", "course/build")
        if (image.files / place).exists()
        for path in (image.files / place).iterdir()
    ]
    assert left == []
    assert not (image.files / "usr/bin/c++").exists()
    assert image.marker not in json.dumps(image.description)
    found = subprocess.run(["grep", "-rlFs", image.marker, image.files], capture_output=True)
    assert (found.returncode, found.stdout) == (1, b"")


# What it does


def test_launch_tests_pass_in_the_image(image):
    said = image.run(
        "python", "-m", "pytest", "-q", "-k", "not stock and not doctor", "-p", "tests.plugins.no_skips",
        "-p", "no:cacheprovider", *SYSTEM,
        user="attendee", folders=[f"{ROOT / 'tests'}:/course/tests:ro"], timeout_s=600,
        IPYTHONDIR="/tmp/ipython",  # not in the home folder, which others start from below
    )  # fmt: skip
    assert re.search(r"\d+ passed", said), said


def test_any_user_trains_on_two_ranks_in_the_image(image, own_folder):
    runs = own_folder("runs")
    image.run(
        "ddl", "run", "--workers", "2", "train_cifar.py", "--data-set", "synthetic",
        "--train-samples", "512", "--test-samples", "256", "--global-batch", "64", "--epochs", "1",
        folders=[f"{runs}:/course/runs"], timeout_s=300,
    )  # fmt: skip
    (run,) = runs.iterdir()
    result = json.loads((run / "result.json").read_text())
    assert (result["ranks"], result["steps"]) == (2, 8)
    assert run.stat().st_uid == 4242


# JupyterLab


@contextlib.contextmanager
def jupyterlab(image, *command, **options):
    """Start it; yield its port, the token that it shows, and the process that Docker knows."""
    port = free_port()
    with image.start(*command, JUPYTER_PORT=port, **options) as process:
        pattern = rf"http://127\.0\.0\.1:{port}/lab/tree/Start_Here\.ipynb\?token=([0-9a-f]{{32,}})"
        said = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(pattern, line):
                break
        else:
            pytest.fail("".join(said))
        yield port, found[1], process


def test_default_server_requires_token(image):
    health = image.config["Healthcheck"]["Test"]
    assert health[0] == "CMD"
    with jupyterlab(image, *image.config["Entrypoint"]) as (port, token, process):
        page = "/api/contents/Start_Here.ipynb?content=0"
        assert http_status(port, page) == 403
        assert http_status(port, f"{page}&token={'0' * len(token)}") == 403
        assert http_status(port, f"{page}&token={token}") == 200
        image.run(*health[1:], JUPYTER_PORT=port)
        (init,) = [each for each in process.children(recursive=True) if each.name() == "tini"]
        init.terminate()  # what `docker stop` does
        process.communicate(timeout=10)  # after which Docker would kill it
    image.run(*health[1:], JUPYTER_PORT=port, succeeds=False)


def test_course_is_copied_from_readonly_image(image, own_folder):
    """As on a cluster: `singularity run` begins in a folder of the caller's."""
    home = own_folder("home")
    there = {"folders": [f"{home}:/scratch"], "cwd": "/scratch"}
    with jupyterlab(image, "start-course", **there) as (_, _, process):
        (server,) = [each for each in process.children(recursive=True) if "jupyterlab" in " ".join(each.cmdline())]
        assert server.environ()["PYTHONPATH"] == "/scratch/ddl-course/source_code"
    course = home / "ddl-course"
    assert [entry.name for entry in home.iterdir()] == ["ddl-course"]
    assert course.stat().st_uid == 4242
    (course / "Start_Here.ipynb").write_text("{}")
    asked = "from ddl.records.paths import runs_dir; print(runs_dir())"
    own = {"PYTHONPATH": "/scratch/ddl-course/source_code"}
    assert image.run("python", "-c", asked, **there, **own).strip() == "/scratch/ddl-course/runs"
    with jupyterlab(image, "start-course", **there):
        assert (course / "Start_Here.ipynb").read_text() == "{}"
