"""A class on one server: JupyterHub from its own settings, two attendees in a real browser, two cores."""

import os
import signal
import subprocess
import sys
import urllib.request

import nbformat
import psutil
import pytest

from helpers import ROOT, free_ports, until

pytestmark = pytest.mark.nightly("grading/hub/*")
pytest.importorskip("jupyterhub", reason="jupyterhub is not installed")

LESSON = "1.Gradient-Basics"
MEMORY = 2 << 30
SETTINGS = """
c = get_config()
c.JupyterHub.hub_port = {}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{}"
c.Spawner.cpu_limit = 2
c.Spawner.mem_limit = {}
c.Spawner.environment.update({{"DDL_WARM": "no"}})
"""
UNTIL_THERE = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists():\n    time.sleep(0.1)\n"
LIMITS = f"""
import os, resource
print("cores", sorted(os.sched_getaffinity(0)), "memory", resource.getrlimit(resource.RLIMIT_DATA)[0])
try:
    bytearray({MEMORY})
except MemoryError:
    print("more is refused")
"""
SUBMIT = f"""
import subprocess
print(subprocess.run(["ddl", "submit", "{LESSON}"], capture_output=True, text=True))
"""


class Hub:
    """A hub on two of this machine's cores, and the instructor's commands."""

    def __init__(self, folder):
        self.folder, self.marks = folder / "class", folder / "marks"
        self.folder.mkdir()
        self.port, *others = free_ports(3)
        (self.folder / "settings.py").write_text(SETTINGS.format(*others, MEMORY))
        self.cores = sorted(os.sched_getaffinity(0))[:2]
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "grading"), str(ROOT / "tools")]),
            "DDL_EXCHANGE": str(self.folder / "exchange"),
        }
        self.log = folder / "hub.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hub", "--folder", self.folder, "--port", str(self.port)],
                env=self.environment, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=lambda: os.sched_setaffinity(0, self.cores),
            )  # fmt: skip

    def answers(self):
        assert self.process.poll() is None, self.log.read_text(errors="replace")
        try:
            return urllib.request.urlopen(self.url("/hub/login"), timeout=10).status == 200
        except OSError:
            return False

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def marking(self, *command):
        done = subprocess.run(
            [sys.executable, "-m", "marking", "--course", self.marks, *command],
            env=self.environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def processes(self):
        """Processes of this class: its hub, proxy, servers, kernels and runs."""
        for process in psutil.process_iter():
            try:
                if str(self.folder) in f"{process.cmdline()} {process.environ()}" and process.status() != "zombie":
                    yield process
            except psutil.Error:
                continue


class Seat:
    """An attendee's server, as `Tab` asks for one."""

    def __init__(self, hub, context, name):
        self.hub, self.context, self.name = hub, context, name
        self.root = hub.folder / "attendees" / name / "course"
        self.page = context.new_page()

    def sign_in(self, password):
        self.page.goto(self.hub.url("/hub/login"))
        self.page.get_by_label("Username").fill(self.name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()

    def url(self, path):
        return self.hub.url(f"/user/{self.name}/lab/tree/{path}?reset")

    def api(self, path):
        return self.context.request.get(self.hub.url(f"/user/{self.name}/api/{path}")).json()

    def idle(self):
        """Whether the notebook's kernel is; that of Start_Here may never have been connected to."""
        states = [each["kernel"]["execution_state"] for each in self.api("sessions") if each["path"] == "mine.ipynb"]
        return states == ["idle"]

    def write(self, cells):
        path = self.root / "mine.ipynb"
        kernel = {"name": "python3", "display_name": "Python 3"}
        code = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(nbformat.v4.new_notebook(cells=code, metadata={"kernelspec": kernel}), path)
        return path


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    hub = Hub(folder)
    try:
        students = folder / "students.csv"
        students.write_text("id\nann\nbob\n")
        hub.marking("release", LESSON, "--students", str(students))  # while the hub starts
        until(hub.answers, 120, lambda: hub.log.read_text(errors="replace")[-3000:])
        yield hub
    finally:
        hub.process.send_signal(signal.SIGTERM)
        hub.process.wait(60)
    until(lambda: not list(hub.processes()), 30, lambda: f"left behind: {list(hub.processes())}")


@pytest.fixture
def seats(hub, browser):
    contexts = [browser.new_context(viewport={"width": 1280, "height": 900}) for _ in range(2)]
    yield [Seat(hub, context, name) for context, name in zip(contexts, ("ann", "bob"))]
    for context in contexts:
        context.close()


def test_two_attendees_share_a_server(hub, seats, new_tab, tmp_path):
    ann, bob = seats
    ann.sign_in("not the password")
    ann.page.get_by_role("heading", name="Distributed deep learning").wait_for()
    assert "such as ada01" in ann.page.locator("#what-to-type").inner_text()
    ann.page.screenshot(path=ROOT / "build" / "screenshots" / "sign-in.png")
    ann.page.get_by_text("Invalid username or password").wait_for()
    password = (hub.folder / "hub" / "password").read_text()
    for seat in seats:
        seat.sign_in(password)
    for seat in seats:  # both start at once
        seat.page.locator(".jp-DirListing-itemText", has_text="Start_Here").wait_for(timeout=120_000)
        names = {entry["name"] for entry in seat.api("contents/")["content"]}
        assert {"Start_Here.ipynb", "notebooks"} <= names and not {"grading", "tests", "Makefile"} & names
    ann.page.locator(".lm-TabBar-tab", has_text="Start_Here").first.wait_for(timeout=60_000)

    script, end = tmp_path / "wait.py", tmp_path / "end"
    script.write_text(UNTIL_THERE)
    launched = f"from ddl import launch\nrun = launch({str(script)!r}, workers=2, threads=1, args=[{str(end)!r}])"
    cells = [LIMITS, launched, SUBMIT, "from course import share\nprint(share())"]
    tabs = [new_tab(seat.page, seat, seat.write(cells)) for seat in seats]
    tabs[0].run_all()
    until(lambda: list(ann.root.glob("runs/*/rank-1.log")), 60, "ann's run did not start")
    tabs[1].run_all()
    waits = bob.page.locator(".ddl-run", has_text="waiting for its turn")
    try:
        waits.wait_for(timeout=60_000)
    finally:
        tabs[1].screenshot("hub-waits")
    assert "used by ann's" in waits.inner_text()
    assert not list(bob.root.glob("runs/*/rank-*.log"))
    end.touch()
    for seat, tab in zip(seats, tabs):
        saved = tab.wait_until_idle(120)
        assert not saved.errors, saved.errors
        assert f"cores {hub.cores} memory {MEMORY}\nmore is refused" in saved.printed
        assert f"{LESSON} is handed in for {seat.name}" in saved.printed
        assert f"your name ({seat.name})" in saved.printed
        assert any("done" in html for html in saved.html)

    hub.marking("collect", LESSON)
    taken = {path.parts[-3] for path in hub.marks.glob(f"submitted/*/{LESSON}/*.ipynb")}
    assert taken == {"ann", "bob"}
    page = ann.context.new_page()
    page.goto(hub.url("/user/ann/ddl/class"))
    page.get_by_role("cell", name="bob", exact=True).wait_for()
    page.screenshot(path=ROOT / "build" / "screenshots" / "class.png")
    log = hub.log.read_text(errors="replace")
    assert password not in log and (hub.folder / "hub" / "admin-password").read_text() not in log
