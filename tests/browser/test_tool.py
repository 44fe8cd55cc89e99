"""The tool by itself: installed from a wheel into an empty environment, without the course."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import horovod as horovod_here
import pytest

from helpers import ROOT

pytestmark = pytest.mark.nightly(
    "source_code/ddl/*", "source_code/pyproject.toml", "source_code/README.md", "tools/setup.sh"
)

UV = Path(sys.executable).with_name("uv")
RANK = """\
import os
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
"""
FAILS = RANK + 'if os.environ["RANK"] == "1":\n    raise ValueError("not today")\n'


def pinned(name):
    """A package as the course's lock pins it."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return next(line.split()[0] for line in lines if line.startswith(f"{name}=="))


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A folder with `env`, in which only the wheel and its dependencies are installed."""
    folder = tmp_path_factory.mktemp("tool")

    def uv(*words):
        subprocess.run([UV, *words], check=True, cwd=folder, env=os.environ | {"UV_LINK_MODE": "copy"}, timeout=500)

    uv("build", "--quiet", "--wheel", "--out-dir", folder, ROOT / "source_code")
    (wheel,) = folder.glob("*.whl")
    uv("venv", "--quiet", "--python", sys.executable, "env")
    packages = next((folder / "env").glob("lib/python3*/site-packages"))
    for horovod in Path(horovod_here.__file__).parents[1].glob("horovod*"):  # which takes minutes to compile
        shutil.copytree(horovod, packages / horovod.name)
    pins = [pinned(name) for name in ("cloudpickle", "numpy", "packaging", "pandas", "psutil", "pyyaml")]
    uv("pip", "install", "--quiet", "--python", folder / "env/bin/python", wheel, *pins)
    return folder


def ddl(folder, *words):
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("DDL_", "PYTHON", "VIRTUAL"))
    }
    command = [folder / "env/bin/ddl", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)


def test_wheel_holds_the_tool_only(environment):
    (wheel,) = environment.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ddl", "ddl_launch"}
    assert "ddl/display/style.css" in names and "ddl/job/pass_environment.sh" in names


def test_script_runs_without_tensorflow(environment):
    (environment / "rank.py").write_text(RANK)
    (environment / "fails.py").write_text(FAILS)
    done = ddl(environment, "run", "--cluster", "torchrun", "rank.py")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads(ddl(environment, "list", "--json").stdout)
    assert run["state"] == "done" and Path(run["folder"]).parent == environment / "runs"
    assert ddl(environment, "logs", run["id"], "--rank", 1).stdout == "rank 1 of 2\n"
    failed = ddl(environment, "run", "--cluster", "torchrun", "fails.py")
    assert failed.returncode == 1 and "ValueError: not today" in failed.stdout and "fails.py" in failed.stdout
    assert "invalid choice: 'check'" in ddl(environment, "check", "1").stderr
