"""A whole set-up in an empty folder, interrupted on the way and taken up again."""

import os
import signal
import subprocess

import pytest

from ddl.records import stack
from helpers import SETTING_UP, copy_tracked


@pytest.mark.nightly(*SETTING_UP)
@pytest.mark.timeout(1500)
def test_setup_of_fresh_clone_resumes_after_interrupt(tmp_path):
    """In a folder with spaces in its name, with uv's cache. The environment shares no files."""
    course = tmp_path / "a fresh clone"
    copy_tracked(course)
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "VENV")}
    env |= {"DDL_ACCELERATOR": "cpu", "DDL_STACK": stack.name(), "DDL_DATA_DIR": str(tmp_path / "data")}

    def start():
        return subprocess.Popen(
            ["make", "setup"], cwd=course, env=env, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
        )  # fmt: skip

    first, printed = start(), []
    for line in first.stdout:
        printed.append(line)
        if line.startswith("set-up: making"):
            os.killpg(first.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
            break
    rest, _ = first.communicate(timeout=60)
    assert first.returncode != 0
    assert "`make setup` again" in rest, "".join(printed) + rest

    second = start()
    text, _ = second.communicate(timeout=1200)
    assert second.returncode == 0, text
    third = start()
    assert third.communicate(timeout=60)[0] == "" and third.returncode == 0
    venv = course / (".venv-next" if stack.name() == "next" else ".venv")
    assert [path for path in venv.rglob("*.py") if path.stat().st_nlink > 1] == []
    ddl = [venv / "bin" / "ddl", "data", "list"]
    subprocess.run(ddl, cwd=tmp_path, env=env, check=True, timeout=120, stdout=subprocess.DEVNULL)
