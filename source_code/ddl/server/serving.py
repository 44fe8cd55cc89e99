"""Pages of the notebook server that show runs, read from their folders and independent of their kernels.

=======================  ====================================================================
ddl/runs/RUN             a page with one run
ddl/runs/RUN/state       JSON: the parts of its panel that change, or its end as HTML
ddl/runs/RUN/kill/RANK   (POST) kills a rank, which then restarts
ddl/runs/RUN/stop        (POST) stops it
ddl/newer/RUN,RUN        JSON: panels of runs that go on in the same cells, from another tab
ddl/view.js              updates panels
=======================  ====================================================================

Everything but the scripts needs the server's token. The scripts don't, because JupyterHub does not recognize the user
in a browser's request for a module.
"""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from html import escape
from pathlib import Path
from threading import Lock

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web

from ddl import plugins
from ddl.display.panel import SERVED, LastLines, mime_bundle, panel_html, parts_html
from ddl.errors import CourseError
from ddl.follow.run import attach
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json
from ddl.records.paths import runs_dir

WIDGET = "application/vnd.jupyter.widget-view+json"
KEPT = 32  # runs whose readers are kept between requests
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width"></head>
<body style="font-family:system-ui,sans-serif;max-width:980px;margin:24px auto;padding:0 16px">
<main><h1 style="font-size:20px">{name}</h1>{panel}</main>
<script type="module">import {{ follow }} from "{script}"; follow();</script></body></html>
"""


class Runs:
    """The content of all pages, with a cache of the latest runs; `pages` is the base URL."""

    def __init__(self, pages):
        self._pages = pages
        self._follow = lru_cache(KEPT)(lambda run_id: (attach(run_id), LastLines()))
        self._lock = Lock()

    def state(self, run_id):
        """Return the parts of a run's panel that change, or its end."""
        progress, lines = self._look(run_id)
        with suppress(OSError):  # such as another user's folder
            RunFolder(progress.folder).watched.touch()
        if progress.over:
            return {"over": True, "html": mime_bundle(progress, lines, back=True)["text/html"]}
        return {"over": False, "parts": parts_html(progress, lines)}

    def newer(self, run_ids):
        """Return {"found": {a run: the panel of a later run}}: both of one notebook's cell, and the later one goes on.

        Runs of one execution of a cell, such as a loop's, don't count as later.
        """
        asked, found = set(run_ids.split(",")), {}
        folders = sorted(folder for folder in runs_dir().iterdir() if folder.name >= min(asked))
        places = {folder.name: read_json(RunFolder(folder).shown) for folder in folders}
        for run_id in asked & places.keys():
            for later, place in places.items():
                if later > run_id and _again(places[run_id], place):
                    progress, lines = self._look(later)
                    if not progress.over:
                        found[run_id] = panel_html(progress, lines, served=True)
        return {"found": found}

    def framed(self, name, body):
        """Return a page whose panels are kept up to date."""
        return PAGE.format(name=escape(name), panel=body, script=escape(url_path_join(self._pages, "view.js")))

    def page(self, run_id):
        """Return a page that shows one run."""
        progress, lines = self._look(run_id)
        over = progress.over and mime_bundle(progress, lines, back=True)["text/html"]
        return self.framed(progress.name, over or panel_html(progress, lines, served=True))

    def plugin_page(self, title, body):
        """Return a plugin's page."""
        return self.framed(title, body())

    def stop(self, run_id):
        """Stop a run and return its state."""
        run = attach(run_id)
        run.stop()
        return {"state": run.state}

    def kill(self, run_id, rank):
        """Kill a rank of a run."""
        attach(run_id).kill_rank(int(rank))
        return {"rank": rank}

    def _look(self, run_id):
        with self._lock:
            run, lines = self._follow(run_id)
            progress = run.progress()
            return progress, lines(progress)


def _again(first, second):
    """Return whether two records of `panel.note_cell` are of two executions of one cell."""
    same = first and second and all(first.get(name) == second.get(name) for name in ("notebook", "cell"))
    return bool(same) and first.get("execution") != second.get("execution")


class _Handler(JupyterHandler):
    """The result of a function: a string is a page, a dictionary is JSON."""

    def initialize(self, answer, threads, refresh=None):
        self._answer, self._threads, self._refresh = answer, threads, refresh

    async def _respond(self, *arguments):
        """Call the function, which reads files or waits for processes, without blocking the server."""
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, *arguments)
        except CourseError as error:
            raise web.HTTPError(404, reason="no such run") from error
        self.finish(answer)

    def write_error(self, status_code, **kwargs):
        error = kwargs.get("exc_info", (None, None))[1]
        cause = error.__cause__ if isinstance(error, web.HTTPError) and error.__cause__ else error
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"message": str(cause or f"status {status_code}")}))


class _Page(_Handler):
    @web.authenticated
    async def get(self, *arguments):
        self.set_header("Cache-Control", "no-store")
        if self._refresh:
            self.set_header("Refresh", self._refresh)
        await self._respond(*arguments)


class _Action(_Handler):
    @web.authenticated
    async def post(self, *arguments):
        await self._respond(*arguments)


GONE = "A button or slider was here: run this cell to have it again."
PLACEHOLDER = {"text/plain": GONE, "text/html": f"<p><small>{GONE}</small></p>"}


def forget_widgets(model, **_):
    """Put a sentence in place of each widget in saved notebooks, because without its kernel it would be an error.

    ``settings/jupyter_server_config.json`` registers this, because other extensions may replace the contents manager.
    """
    if model["type"] == "notebook":
        for cell in model["content"]["cells"]:
            for output in cell.get("outputs", ()):
                if WIDGET in output.get("data", ()):
                    output["data"] = dict(PLACEHOLDER)


def serve(server):
    """Add the pages of runs to a Jupyter server, and tell its kernels about them."""
    pages = url_path_join(server.web_app.settings["base_url"], "ddl")
    runs = Runs(pages)
    shared = {"threads": ThreadPoolExecutor(8, thread_name_prefix="ddl")}
    run = url_path_join(pages, "runs", r"([\w.-]+)")
    static = {"path": str(Path(__file__).with_name("static"))}
    # The search path of custom.css: after the user's, before Jupyter's empty one.
    server.web_app.settings["static_custom_path"].insert(1, static["path"])
    handlers = [
        (run, _Page, shared | {"answer": runs.page}),
        (url_path_join(run, "state"), _Page, shared | {"answer": runs.state}),
        (url_path_join(run, "stop"), _Action, shared | {"answer": runs.stop}),
        (url_path_join(run, "kill", r"(\d+)"), _Action, shared | {"answer": runs.kill}),
        (url_path_join(pages, "newer", r"([\w.,-]+)"), _Page, shared | {"answer": runs.newer}),
        (url_path_join(pages, r"(\w+\.js)"), web.StaticFileHandler, static),
    ]
    for added in plugins.each("pages"):
        for name, (title, body) in added().items():
            page = {"answer": partial(runs.plugin_page, title, body), "refresh": "10"}
            handlers.append((url_path_join(pages, name), _Page, shared | page))
    server.web_app.add_handlers(".*$", handlers)
    os.environ[SERVED] = str(runs_dir())  # inherited by kernels
    if not server.identity_provider.token_generated:  # otherwise Jupyter prints the address
        server.io_loop.call_later(0, server.log.critical, "JupyterLab: %s", server.display_url)
