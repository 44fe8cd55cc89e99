"""Shared fixtures: a private runs folder and cache, scripts to launch, and a browser."""

import contextlib
import os
import shutil
import textwrap

import psutil
import pytest

from beside import Beside, commands_of
from ddl.launcher import processes, warm
from ddl.records.paths import data_dir

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


BESIDE = pytest.StashKey()
SESSION = "DDL_TEST_SESSION"  # in the environment of all that a session starts
os.environ[SESSION] = str(os.getpid())


def pytest_runtestloop(session):
    """Start at once what module fixtures of the selected tests wait for."""
    commands = {} if session.config.option.collectonly else commands_of(session.items)
    if commands:
        runner = session.config.stash[BESIDE] = Beside()
        runner.begin(commands)


def pytest_sessionfinish(session):
    if runner := session.config.stash.get(BESIDE, None):
        runner.end()


@pytest.fixture(scope="module")
def beside(request):
    """Return a function that waits for a command of the module's BESIDE: (its folder, what it printed)."""
    return lambda name: request.config.stash[BESIDE].result(f"{request.module.__name__}.{name}")


@pytest.fixture(autouse=True)
def private_folders(tmp_path_factory, monkeypatch):
    """Give every test its own runs folder; data sets and the build's answer stay shared."""
    monkeypatch.setenv("DDL_DATA_DIR", str(data_dir()))
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path_factory.mktemp("runs")))
    monkeypatch.setenv("DDL_VIEW", "plain")
    monkeypatch.setenv("DDL_WARM", "no")  # a template only where a test asks for one


@pytest.fixture(scope="session", autouse=True)
def no_templates_left():
    """End the templates that tests and their notebooks have started; notebooks do where ``DDL_WARM`` is not set."""
    yield
    warm.stop([template["pid"] for template in warm.running() if _ours(template["pid"])])


def _ours(pid):
    """Whether a process was started from this session; others' tests may run beside it."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).environ().get(SESSION) == os.environ[SESSION]
    return False


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
    """Return a function that fails when a process of that run is still alive."""

    def check(run):
        assert processes.of_run(run.id) == []

    return check


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests: its library allows no second one beside it."""
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()
