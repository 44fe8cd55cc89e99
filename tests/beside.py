"""Long commands that module fixtures wait for, run one after another beside the tests that come before.

A module lists them in BESIDE, by the name of the fixture: a function from an empty folder to the command and what its
environment has besides that of the tests. The fixture asks for the result with `beside(name)`. Where it has parameters,
the function takes one before the folder, and the name is `fixture[parameter]`.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import psutil

from helpers import until


class Beside:
    """The commands of one session, and the process that runs them. It is no child of the tests, which count theirs."""

    def __init__(self, grace_s=5):
        self._grace_s = grace_s  # until what was asked to end is killed
        self.folder = Path(tempfile.mkdtemp(prefix="beside-"))
        self._began = set()
        self._stdin = None

    def begin(self, commands):
        """Start running {name: a function from its folder to (command, environment)}, in this order."""
        self._began |= set(commands)
        listed = []
        for name, make in commands.items():
            (self.folder / name).mkdir()
            listed.append((name, make(self.folder / name)))
        (self.folder / "commands").write_text(json.dumps(listed, default=str))
        reading, self._stdin = os.pipe()
        with open(self.folder / "log", "w") as log:
            command = [sys.executable, __file__, self.folder, str(self._grace_s)]
            subprocess.run(command, stdin=reading, stdout=log, stderr=log, check=True)
        os.close(reading)

    def result(self, name):
        """Wait for a command that has begun, and return its folder and what it has printed."""
        assert name in self._began, f"{name} has not begun"
        folder = self.folder / name
        status = folder / "status"
        until(status.exists, 500, lambda: (self.folder / "log").read_text() or f"{name} takes too long")
        printed, errors = (folder / "stdout").read_text(), (folder / "stderr").read_text()
        assert status.read_text() == "0", printed[-3000:] + errors[-5000:]
        return folder, printed

    def end(self):
        """End what still runs, and remove what all have left."""
        if self._stdin is not None:
            pid = int((self.folder / "pid").read_text())
            os.close(self._stdin)
            until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, 60)
        shutil.rmtree(self.folder, ignore_errors=True)


def commands_of(items):
    """Return the commands that the selected tests' fixtures wait for, in the order of the tests."""
    found = {}
    for item in items:
        listed = getattr(getattr(item, "module", None), "BESIDE", {})
        for name in [name for name in listed if name in item.fixturenames]:
            place = f"{item.module.__name__}.{name}"
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            if name in parameters:
                found[f"{place}[{parameters[name]}]"] = partial(listed[name], parameters[name])
            else:
                found[place] = listed[name]
    return found


LAUNCHES = """
import json, sys
from ddl import launch
print(json.dumps({name: launch(**call).id for name, call in json.loads(sys.argv[1]).items()}))
"""


def launches(calls):
    """Return what BESIDE lists for runs: {name: arguments of `launch`}, one run after another."""

    def command(folder):
        return [sys.executable, "-c", LAUNCHES, json.dumps(calls)], {"DDL_RUNS_DIR": str(folder), "DDL_VIEW": "plain"}

    return command


def launched(folder, printed):
    """Return these runs by name, when they are over."""
    import pytest  # not in the process that runs the commands

    from ddl import attach

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DDL_RUNS_DIR", str(folder))
        return {name: attach(run) for name, run in json.loads(printed.splitlines()[-1]).items()}


def main():
    folder, grace_s = Path(sys.argv[1]), float(sys.argv[2])
    if child := os.fork():
        (folder / "pid").write_text(str(child))
        os._exit(0)
    os.setsid()
    try:
        run_all(folder, grace_s)
        select.select([sys.stdin], [], [])
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # also where the tests were killed


def run_all(folder, grace_s):
    for name, (command, environment) in json.loads((folder / "commands").read_text()):
        place = folder / name
        with open(place / "stdout", "w") as stdout, open(place / "stderr", "w") as stderr:
            process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        while process.poll() is None:
            if over():
                stop(process, grace_s)
                return
        (place / "status.part").write_text(str(process.returncode))
        (place / "status.part").rename(place / "status")


def over():
    """Whether the tests are over, ended or killed: nobody holds the other end of stdin. Takes a moment."""
    return bool(select.select([sys.stdin], [], [], 0.02)[0])


def stop(process, grace_s):
    family = [process, *psutil.Process(process.pid).children(recursive=True)]
    process.terminate()  # a launcher ends its ranks
    psutil.wait_procs(family[1:], timeout=grace_s)
    for each in family:
        try:
            os.kill(each.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


if __name__ == "__main__":
    main()
