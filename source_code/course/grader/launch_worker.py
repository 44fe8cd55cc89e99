"""The process that launches answers while they are graded: ``python -I -m course.grader.launch_worker``.

It calls `ddl.launch` like a notebook. The grader starts this process in a sandbox and treats its replies as plain data.
"""

import io
import json
import os
import re
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from course.grader.serialize import decode, encode
from course.grader.worker_pipe import MessagePipe
from ddl import Site, launch
from ddl.errors import CourseError

RUN_ANSWER = Path(__file__).with_name("run_answer.py")
IMPORTS = r"(?m)^\s*(from|import)\s+"
CHECKPOINT = "model.weights"  # how the names of checkpoint files begin
TEXT = 500  # characters of an error


def main() -> None:
    pipe = MessagePipe()
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    pipe.serve(lambda request: {} if request["do"] == "start" else perform(request))


def perform(request: dict) -> dict:
    """Launch a script; return whether it was ``late`` and each rank's `_rank`, or why it failed, as ``ended``."""
    with tempfile.TemporaryDirectory(prefix="launch-", ignore_cleanup_errors=True) as folder:
        home, name = Path(folder), Path(request["file"]).name
        (home / name).write_text(request["script"])
        for file, arrays in decode(request["files"]).items():
            np.savez(home / file, **arrays)
        imports = {name for name in ("horovod", "torch") if re.search(IMPORTS + name, request["script"])}
        seconds, began = request["seconds"], time.monotonic()
        os.environ["DDL_RUNS_DIR"] = str(home / "runs")  # these runs are not the reader's
        try:
            launch(
                RUN_ANSWER,
                args=[home, name, request["program"], seconds, *request["args"]],
                workers=request["ranks"],
                cluster="torchrun" if imports == {"torch"} else "horovod",
                site=Site(),  # this machine, without GPUs
                threads=1,
                oversubscribe=True,
                timeout_s=seconds,
                check=False,
            )
        except CourseError as error:
            return {"ended": str(error)[:TEXT]}
        late = time.monotonic() - began >= seconds
        return {"late": late, "ranks": [_rank(home / str(rank), name) for rank in range(request["ranks"])]}


def _rank(folder, name):
    """Return a rank's ``report`` and exit state from its folder."""
    found = {"wrote": any(folder.glob(f"{CHECKPOINT}*")), "done": (folder / "done").exists()}
    with suppress(OSError, ValueError):
        found["error"] = json.loads((folder / "error.json").read_text())
    # The answer wrote this file, so reading it may raise any exception.
    with suppress(Exception), np.load(folder / "report.npz", allow_pickle=False) as arrays:
        found["report"] = encode(dict(arrays))
    with suppress(OSError):
        lines = re.findall(rf'File ".*{re.escape(name)}", line (\d+)', (folder / "stack").read_text())
        found |= {"line": int(lines[0])} if lines else {}
    return found


if __name__ == "__main__":
    main()
