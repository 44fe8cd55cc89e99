"""Run an answer's file on one rank while it is graded: the script that `course.grader.launch_worker` launches.

Each rank works in its own folder, which shows the grader which ranks write a checkpoint.
"""

import faulthandler
import importlib
import json
import os
import runpy
import sys
import time
import traceback
from pathlib import Path

MARGIN_S = 2.0  # a rank records its position before a launch times out
TEXT = 500  # characters of an error


def main(home, name, program, seconds, *arguments):
    rank = os.environ.get("HOROVOD_RANK") or os.environ.get("RANK", "0")
    folder, file = Path(home, rank), str(Path(home, name))
    folder.mkdir()
    os.chdir(folder)
    os.environ["DDL_REPORT"] = str(folder / "report.npz")
    os.environ["DDL_INITIAL_WEIGHTS"] = str(Path(home, "initial.npz"))
    faulthandler.dump_traceback_later(max(float(seconds) - MARGIN_S, 1), file=open("stack", "w"))
    sys.argv, sys.path[0] = [file, *arguments], home
    try:
        if program:
            importlib.import_module(program).main(file)
        else:
            runpy.run_path(file, run_name="__main__")
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code:
            _write_down(error, file)
            raise
    faulthandler.cancel_dump_traceback_later()
    Path("done").touch()


def _write_down(error, file):
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else frames and frames[-1].lineno
    message = str(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        message = "PyTorch is not installed here: `make setup TORCH=1` installs it"
    described = {"type": type(error).__name__[:TEXT], "message": message[:TEXT], "line": line or None}
    Path("error.json").write_text(json.dumps(described | {"time": time.time()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
