"""Shared fixtures: a private runs folder and cache, scripts to launch, and a browser."""

import functools
import gc
import os
import shutil
import signal
import subprocess
import textwrap

import pytest

from ddl import runs
from ddl.follow import processes
from ddl.records.paths import data_dir
from helpers import IN_THE_LAB, MARKING, ROOT, SETTING_UP

# Folders whose tests start ranks, browsers, clusters and set-ups: all are slow, but for one launch.
REAL = {"browser", "containers", "launch", "setup", "slurm"}
FAST = "test_horovod.py"
LOOKS_AT = {  # files that a folder's slow tests look at (see plugins/due.py), besides those that their own marks name
    "browser": IN_THE_LAB,
    "containers": ("containers/*",),
    "grading": MARKING,
    "launch": ("source_code/ddl/*",),
    "notebooks": ("lessons/*", "tools/*.py", "results/*", "source_code/course/*"),
    "setup": SETTING_UP,
    "slurm": ("source_code/ddl/*",),
}

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


gc.disable()  # while importing: scanning a million new objects for garbage took a tenth of the fast tests' time


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a script's background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what tests start can be interrupted


def pytest_itemcollected(item):
    folder = item.path.relative_to(ROOT / "tests").parts[0]
    slow = item.get_closest_marker("slow") or (folder in REAL and item.path.name != FAST)
    if slow and not item.get_closest_marker("nightly"):
        item.add_marker(pytest.mark.slow(*LOOKS_AT.get(folder, ())))


def pytest_make_parametrize_id(val, argname):
    """Name bytes by their parameter: what they hold may differ from worker to worker (gzip writes the time)."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="module")
def output_of(request, tmp_path_factory):
    """Return a function that runs a command of the module's OUTPUTS, once: (its folder, what it printed).

    An entry is a function from parameters and an empty folder to (command, additional environment).
    """

    @functools.cache
    def run(name, *parameters):
        folder = tmp_path_factory.mktemp(name)
        command, environment = request.module.OUTPUTS[name](*parameters, folder)
        command = [str(word) for word in command]
        ended = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=500)
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-5000:]
        return folder, ended.stdout

    return run


@pytest.fixture(autouse=True)
def private_folders(tmp_path_factory, monkeypatch):
    """Give every test its own runs folder; data sets and the build's answer stay shared."""
    monkeypatch.setenv("DDL_DATA_DIR", str(data_dir()))
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path_factory.mktemp("runs")))
    monkeypatch.setenv("DDL_VIEW", "plain")
    monkeypatch.setenv("DDL_WARM", "no")  # forked ranks only where a test asks for them


@pytest.fixture
def script(tmp_path):
    """Return a function that writes a script and gives its path."""

    def write(text, name="script.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def nothing_left():
    """Fail at the end of a test when a process of its runs is alive; return what looks at another run."""

    def check(run):
        assert processes.of_run(run.id) == []

    yield check
    for run in runs():
        check(run)


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests, because its library allows only one at a time."""
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()
