"""Build many files, each in a builder process of its own, forked from one that has TensorFlow.

    builder_worker.py FOLDER      reads FOLDER/cases.json, {name: source}; writes FOLDER/answers.json

An answer is the builder's line, or how its process ended.
"""

import json
import os
import select
import signal
import sys
import tempfile
from pathlib import Path

import tensorflow.keras.layers
import tensorflow.keras.optimizers.legacy  # noqa: F401  once for all

from ddl.challenge import builder
from ddl.challenge.build import BASELINE

SEED = 1234567
LIMIT_S = 60


def build(source, scratch):
    """Return what the builder answers, or how it ended without."""
    request, answer = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.environ.clear()
        os.environ.update(HOME=scratch, TMPDIR=scratch, PATH="/usr/bin:/bin")
        os.chdir(scratch)
        tempfile.tempdir = scratch  # it is known already
        os.dup2(request[0], 0)
        os.dup2(answer[1], 1)
        for descriptor in (*request, *answer):
            os.close(descriptor)
        builder.main()
        os._exit(1)
    os.close(request[0])
    os.close(answer[1])
    asked = {"name": "mine.py", "source": source, "baseline": BASELINE.read_text(), "seeds": [SEED]}
    with os.fdopen(request[1], "wb") as pipe:
        pipe.write(json.dumps(asked).encode() + b"\n")
        pipe.flush()
        said = b""
        while not said.endswith(b"\n") and select.select([answer[0]], [], [], LIMIT_S)[0]:
            part = os.read(answer[0], 2**20)
            if not part:
                break
            said += part
    if not said.endswith(b"\n"):
        ended, status = os.waitpid(child, os.WNOHANG)
        os.close(answer[0])
        if not ended:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return {"ended": os.waitstatus_to_exitcode(status) if ended else "late", "said": said.decode()}
    os.close(answer[0])
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(said)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    cases = json.loads((folder / "cases.json").read_text())
    answers = {}
    for name, source in cases.items():
        with tempfile.TemporaryDirectory(prefix="cheat-") as scratch:
            answers[name] = build(source, scratch)
    (folder / "answers.json").write_text(json.dumps(answers))
