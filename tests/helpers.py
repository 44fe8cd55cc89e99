"""Helpers for tests in several folders."""

import contextlib
import http.client
import io
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1")

# Files that slow and nightly tests depend on (see plugins/due.py).
LAUNCHING = ("source_code/ddl/job/*", "source_code/ddl/start/*", "source_code/ddl/follow/*")
SETTING_UP = ("Makefile", "pyproject.toml", "requirements*.lock", "tools/*.sh")
MARKING = ("source_code/course/grader/*", "grading/marking/*")
IN_THE_LAB = ("source_code/ddl/display/*", "source_code/ddl/server/*", "source_code/course/lab/*")


def copy_tracked(folder):
    """Copy what git tracks, as it is now."""
    tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    for name in filter(None, tracked):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


def until(condition, timeout_s=200, message="waited in vain", pause=lambda ms: time.sleep(ms / 1000)):
    """Wait until `condition()` is true and return its value; fail with `message`, or what it returns.

    `pause` waits for a number of milliseconds, as a browser's page does.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, message() if callable(message) else message
        pause(50)
    return value


def free_ports(count):
    """Ports that nothing listens on, no two of them equal."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("", 0))
        return [each.getsockname()[1] for each in sockets]


def free_port():
    return free_ports(1)[0]


def http_status(port, path):
    """The status of a local server's answer, as soon as it listens: it may print its address before."""

    def answer():
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            try:
                connection.request("GET", path)
                return connection.getresponse().status
            except ConnectionRefusedError:
                return None

    return until(answer, 30)


def program(path, text):
    """Write a program, with the folder that it is in; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def git(folder, *words):
    """Run git in a folder, as somebody; return what it prints."""
    somebody = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.check_output(["git", "-C", folder, *somebody, *words], text=True).strip()


def archive(files):
    """Return a zip archive of {name: text or bytes}."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return packed.getvalue()


@contextlib.contextmanager
def serving(server):
    """Run a server of http.server in a thread; yield it."""
    with server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def code(source, **metadata):
    """A notebook's code cell in the file's format."""
    return {"cell_type": "code", "source": source, "metadata": metadata}


def question(name, source, points=1):
    """A cell with the tests of a question."""
    return code(source, nbgrader={"grade_id": name, "points": points, "grade": True, "solution": False})


@contextlib.contextmanager
def started(*command):
    """Start a program whose output is read here; kill it afterward."""
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def output(*command, **options):
    """Return the output of a program that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def finished(result, **more):
    """A run that is over, as tables and figures take one."""
    import pandas

    known = dict(name=result["name"], recorded=False, state="done", restarts=(), result=result)
    return SimpleNamespace(**known, history=pandas.DataFrame(result.get("history", [])), **more)


def on_ranks(ranks, *words, **variables):
    """Return a command and variables for a script of the course on single-threaded ranks."""
    launcher = [Path(sys.executable).with_name("horovodrun"), "--gloo", "-np", ranks] if ranks > 1 else []
    environment = {"PYTHONPATH": str(ROOT / "source_code"), "TF_CPP_MIN_LOG_LEVEL": "2", "DDL_RUN_DIR": ""}
    return [*launcher, sys.executable, *words], {**environment, **ONE_THREAD, **variables}


def printed(run, line=-1):
    """Return each rank's JSON output, by default from the last line of its log."""
    return [json.loads(run.logs(rank).splitlines()[line]) for rank in range(run.job["ranks"])]


LAUNCHES = """
import json, sys
from ddl import launch
print(json.dumps({name: launch(**{"timeout_s": 200, **call}).id for name, call in json.loads(sys.argv[1]).items()}))
"""


def launches(calls):
    """Return what OUTPUTS lists for runs: {name: arguments of `launch`}, one run after another."""

    def command(folder):
        return [sys.executable, "-c", LAUNCHES, json.dumps(calls)], {"DDL_RUNS_DIR": str(folder), "DDL_VIEW": "plain"}

    return command


def launched(folder, output):
    """Return these runs by name, when they are over."""
    from ddl import attach

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DDL_RUNS_DIR", str(folder))
        return {name: attach(run) for name, run in json.loads(output.splitlines()[-1]).items()}


def answers():
    """Return what cells of the lessons write to files, as {name of the file: text with the model answer}."""
    text = "\n".join(source.read_text() for source in (ROOT / "lessons").glob("[1-9]*.py"))
    cells = re.findall(r"(?ms)^%%writefile (\w+\.py)\n(.*?\n)\n?# %%", text)
    return {file: re.sub(r"(?m)^.*### (BEGIN|END) SOLUTION.*\n", "", cell) for file, cell in cells}


def claims_of(*names):
    """Return the sentences of these lessons' cells with the tag `claims`."""
    import jupytext

    sources = [ROOT / "lessons" / f"{name}.py" for name in names]
    cells = [cell for source in sources for cell in jupytext.read(source, fmt="py:percent").cells]
    texts = [
        " ".join(re.sub(r"\*\*|^- ", "", cell.source, flags=re.MULTILINE).split())
        for cell in cells
        if "claims" in cell.metadata.get("tags", [])
    ]
    return [part for text in texts for part in re.split(r"(?<=[.!?]) +(?=[A-Z])", text)]
