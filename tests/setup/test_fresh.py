"""A whole set-up in an empty folder, interrupted on the way and taken up again."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import environment
from helpers import ROOT


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fresh_clone_is_set_up_and_an_interrupted_one_resumes(tmp_path):
    """In a folder with blanks in its name. Horovod's wheel, uv's cache and the data are lent."""
    course = tmp_path / "a fresh clone"
    tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    for name in filter(None, tracked):
        (course / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, course / name)
    setup = environment.chosen(Path(sys.prefix))
    wheel = setup.wheel
    cache = tmp_path / "cache"
    lent = cache / "ddl" / "wheels" / wheel.parent.name / wheel.name
    lent.parent.mkdir(parents=True)
    shutil.copy(wheel, lent)
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "VENV")}
    env |= {"XDG_CACHE_HOME": str(cache), "DDL_ACCELERATOR": setup.accelerator, "DDL_STACK": setup.stack}
    env.setdefault("UV_CACHE_DIR", str(user_cache / "uv"))

    def start():
        return subprocess.Popen(
            ["make", "setup"], cwd=course, env=env, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    first, said = start(), []
    for line in first.stdout:
        said.append(line)
        if line.startswith("set-up  horovod"):
            os.killpg(first.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
            break
    rest, _ = first.communicate(timeout=60)
    assert first.returncode != 0
    assert "interrupted; `make setup` goes on from here" in rest, "".join(said) + rest

    second = start()
    text, _ = second.communicate(timeout=800)
    assert second.returncode == 0, text
    steps = [line.split()[1] for line in text.splitlines() if line.endswith("…")]
    assert steps == ["horovod", "package", "data"], text
    assert "from the cache" in text

    third = start()
    assert third.communicate(timeout=60)[0] == "" and third.returncode == 0
    venv = course / (".venv-next" if setup.stack == "next" else ".venv")
    ddl = [venv / "bin" / "ddl", "data", "list"]
    subprocess.run(ddl, cwd=tmp_path, env=env, check=True, timeout=120, stdout=subprocess.DEVNULL)
