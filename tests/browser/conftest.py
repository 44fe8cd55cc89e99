"""A real JupyterLab server and a real browser in front of it."""

import json
import os
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest

from helpers import ROOT, free_port, until

SCREENSHOTS = ROOT / "build" / "screenshots"
TOKEN = "browser-test"


class Lab:
    """A JupyterLab server on its own folder, with its own settings and runs."""

    token = TOKEN

    def __init__(self, folder, more=(), command=(sys.executable, "-m", "ddl.cli", "lab")):
        self.root = folder / "course"
        self.runs = folder / "runs"
        self.root.mkdir(parents=True)
        self.log = folder / "jupyter.log"
        self.port = free_port()
        environment = {k: v for k, v in os.environ.items() if k not in ("DDL_VIEW", "DDL_WARM")}  # as users have it
        environment |= {"DDL_RUNS_DIR": str(self.runs), "IPYTHONDIR": str(folder / "ipython")}
        for name in ("JUPYTERLAB_SETTINGS", "JUPYTERLAB_WORKSPACES", "JUPYTER_CONFIG", "JUPYTER_RUNTIME"):
            environment[f"{name}_DIR"] = str(folder / name.partition("_")[2].lower())
        with open(self.log, "wb") as log:
            options = ["--no-browser", "--ip=127.0.0.1", f"--port={self.port}", "--allow-root", *more]
            options += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={self.root}"]
            self.process = subprocess.Popen(
                [*command, *options], cwd=self.root, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        until(lambda: self.api("status"), 60, f"JupyterLab did not start: see {self.log}")

    def api(self, path, method="GET"):
        """Ask the server; None while it does not answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/{path}", headers={"Authorization": f"token {TOKEN}"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.loads(answer.read() or "null")
        except (OSError, ValueError):
            return None

    def url(self, path):
        return f"http://127.0.0.1:{self.port}/lab/tree/{path}?reset&token={TOKEN}"

    def notebook(self, name, cells):
        """Write a notebook of code cells into the course folder; return its path."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
        return path

    def idle(self):
        kernels = self.api("kernels") or []
        return bool(kernels) and all(kernel["execution_state"] == "idle" for kernel in kernels)

    def stop_kernels(self):
        for kernel in self.api("kernels") or []:
            self.api(f"kernels/{kernel['id']}", method="DELETE")

    def close(self):
        self.stop_kernels()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Saved:
    """A notebook as it was saved, with its outputs."""

    def __init__(self, path):
        notebook = nbformat.read(path, as_version=4)
        self.notebook = notebook
        self.code = [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]
        outputs = [output for cell in self.code for output in cell.outputs]
        self.html = [o["data"]["text/html"] for o in outputs if "text/html" in o.get("data", {})]
        self.printed = "".join(o["text"] for o in outputs if o.output_type == "stream")
        self.errors = [f"{o.ename}: {o.evalue}" for o in outputs if o.output_type == "error"]


class Tab:
    """One notebook open in the browser."""

    def __init__(self, page, lab, path):
        self.page, self.lab, self.path = page, lab, path
        page.goto(lab.url(path.relative_to(lab.root).as_posix()))
        page.locator(".jp-NotebookPanel:visible .jp-Cell").first.wait_for(timeout=60_000)
        until(lab.idle, 60, "the kernel did not start")

    def run_all(self):
        self._menu("Run", "Run All Cells")

    def interrupt(self):
        self._menu("Kernel", "Interrupt Kernel")

    def wait_until_idle(self, timeout_s):
        """Wait until no cell is waiting or running, for a while; then save."""
        quiet_since = None
        deadline = time.monotonic() + timeout_s
        while True:
            if time.monotonic() > deadline:
                self.screenshot(f"{self.path.stem}-timeout")
                raise AssertionError(f"{self.path.name} still runs after {timeout_s} s")
            quiet_since = (quiet_since or time.monotonic()) if self._quiet() else None
            if quiet_since and time.monotonic() - quiet_since > 3:
                break
            self.page.wait_for_timeout(300)
        return self.saved()

    def saved(self):
        """Save through the menu; return the notebook as it then is on disk."""
        before = self.path.stat().st_mtime_ns
        self._menu("File", "Save Notebook")

        def written():
            return self.path.stat().st_mtime_ns != before and self.path.read_text().endswith("}\n")

        until(written, 20, "the notebook was not saved", pause=self.page.wait_for_timeout)
        return Saved(self.path)

    def wait_for_progress(self, panel):
        """Wait until the bar of a run's panel has moved."""
        bar = panel.get_by_role("progressbar")
        before = int(bar.get_attribute("aria-valuenow"))

        def moved():
            return int(bar.get_attribute("aria-valuenow")) > before

        until(moved, 20, "the bar does not move", pause=self.page.wait_for_timeout)

    def screenshot(self, name):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def widens_the_page(self):
        """Whether the notebook can be scrolled sideways."""
        return self.page.evaluate(
            "[...document.querySelectorAll('.jp-WindowedPanel-outer, .jp-OutputArea')]"
            ".filter(area => area.offsetParent)"
            ".some(area => area.scrollWidth > area.clientWidth + 1)"
        )

    def _quiet(self):
        # The server calls a kernel idle as soon as one of its subshells is: ask the cells too.
        stars = (
            "[...document.querySelectorAll('.jp-InputArea-prompt')].some(prompt => prompt.textContent.includes('*'))"
        )
        return self.lab.idle() and not self.page.evaluate(stars)

    def _menu(self, menu, item):
        self.page.locator(".lm-MenuBar-itemLabel", has_text=menu).first.click()
        entry = self.page.locator(f".lm-Menu-itemLabel:text-is('{item}')")
        entry.first.click()


@pytest.fixture(scope="session")
def start_lab(tmp_path_factory):
    """Return a function that starts a server."""
    labs = []

    def start(folder=None, **options):
        labs.append(Lab(folder or tmp_path_factory.mktemp("lab"), **options))
        return labs[-1]

    yield start
    for lab in labs:
        lab.close()


@pytest.fixture(scope="session")
def lab(start_lab):
    return start_lab()


@pytest.fixture(scope="session")
def new_tab():
    """Return what opens a notebook in a page: from the page, a server such as `lab`, and the notebook's path."""
    return Tab


@pytest.fixture
def open_notebook(browser, lab):
    """Return a function that opens a notebook in a new page; `server` is `lab` unless given."""
    opened = []

    def open_(path, width=1280, height=900, server=lab):
        context = browser.new_context(viewport={"width": width, "height": height})
        opened.append((context, server))
        return Tab(context.new_page(), server, path)

    yield open_
    for context, server in opened:
        context.close()
        server.stop_kernels()
