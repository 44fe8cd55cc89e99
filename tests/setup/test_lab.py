"""`make lab` serves Start_Here to the person who has its token, and to nobody else."""

import contextlib
import os
import re
import signal
import subprocess
import sys

import pytest

from helpers import ROOT, free_port, http_status


@pytest.mark.timeout(120)
def test_make_lab_prints_an_address_with_a_token(tmp_path):
    port = free_port()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER_", "MAKE"))}
    env |= {"JUPYTER_CONFIG_DIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    lab = subprocess.Popen(
        ["make", "lab", f"PORT={port}", "NO_BROWSER=1", f"VENV={sys.prefix}"],
        cwd=ROOT, env=env, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        pattern = rf"http://127\.0\.0\.1:{port}/lab/tree/Start_Here\.ipynb\?token=([0-9a-f]{{32,}})"
        token = next(found[1] for line in lab.stdout if (found := re.search(pattern, line)))
        path = "/api/contents/Start_Here.ipynb?content=0"
        assert http_status(port, path) == 403
        assert http_status(port, f"{path}&token={token}") == 200
        lab.terminate()  # make passes it on
        lab.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(lab.pid, signal.SIGKILL)
        lab.stdout.close()
        lab.wait()
