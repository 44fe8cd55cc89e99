"""The part of the notebook server that shows runs: it reads their folders, whatever became of their kernels.

=======================  ====================================================================
ddl/runs/RUN             a page with one run
ddl/runs/RUN/state       JSON: the parts of its panel that change; its end as HTML
ddl/runs/RUN/stop        (POST) ends it
ddl/view.js              what keeps panels up to date
=======================  ====================================================================

All of it is for whoever has the server's token.
"""

import asyncio
import json
import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from threading import Lock

from jupyter_server.base.handlers import AuthenticatedFileHandler, JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web

from ddl.display.panel import SERVED, LastLines, mime_bundle, panel_html, parts_html
from ddl.errors import CourseError
from ddl.launcher.run import attach
from ddl.records.paths import runs_dir

__all__ = ["Runs", "serve"]

KEPT = 32  # runs whose records are not read anew each time
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width"></head>
<body style="font-family:system-ui,sans-serif;max-width:980px;margin:24px auto;padding:0 16px">
<main><h1 style="font-size:20px">{name}</h1>{panel}</main>
<script type="module">import {{ follow }} from "{script}"; follow();</script></body></html>
"""


class Runs:
    """The runs that are looked at, each with what has been read of it so far."""

    def __init__(self):
        self._followed = OrderedDict()
        self._lock = Lock()

    def state(self, run_id):
        """Return what changes in a run's panel, or its end."""
        with self._lock:
            progress, lines = self._look(run_id)
        if progress.over:
            return {"over": True, "html": mime_bundle(progress, lines, back=True)["text/html"]}
        return {"over": False, "parts": parts_html(progress, lines)}

    def page(self, run_id, script):
        """Return a page that shows one run."""
        with self._lock:
            progress, lines = self._look(run_id)
        panel = (
            mime_bundle(progress, lines, back=True)["text/html"]
            if progress.over
            else panel_html(progress, lines, served=True)
        )
        return PAGE.format(name=escape(progress.name), panel=panel, script=escape(script))

    def stop(self, run_id):
        """End a run; return its state then."""
        run = attach(run_id)
        run.stop()
        if run.unwritten:
            raise run.unwritten
        return {"state": run.state}

    def _look(self, run_id):
        if run_id not in self._followed:
            self._followed[run_id] = (attach(run_id), LastLines())
            while len(self._followed) > KEPT:
                self._followed.popitem(last=False)
        self._followed.move_to_end(run_id)
        run, lines = self._followed[run_id]
        progress = run.progress()
        return progress, lines(progress)


class _Handler(JupyterHandler):
    def initialize(self, runs, threads):
        self._runs, self._threads = runs, threads

    async def _in_thread(self, function, *arguments):
        """Read files, or wait for processes, without holding up the server."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        except CourseError as error:
            raise web.HTTPError(404, reason="no such run") from error

    def write_error(self, status_code, **kwargs):
        error = kwargs.get("exc_info", (None, None))[1]
        cause = error.__cause__ if isinstance(error, web.HTTPError) and error.__cause__ else error
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"message": str(cause or f"status {status_code}")}))


class _State(_Handler):
    @web.authenticated
    async def get(self, run_id):
        self.set_header("Cache-Control", "no-store")
        self.finish(await self._in_thread(self._runs.state, run_id))


class _Stop(_Handler):
    @web.authenticated
    async def post(self, run_id):
        self.finish(await self._in_thread(self._runs.stop, run_id))


class _Page(_Handler):
    @web.authenticated
    async def get(self, run_id):
        script = url_path_join(self.base_url, "ddl", "view.js")
        self.finish(await self._in_thread(self._runs.page, run_id, script))


class _Static(AuthenticatedFileHandler):
    def get_content_type(self):
        return "text/javascript"


def serve(server):
    """Add the pages of runs to a Jupyter server, and tell its kernels that it has them."""
    runs = {"runs": Runs(), "threads": ThreadPoolExecutor(8, thread_name_prefix="ddl")}
    place = url_path_join(server.web_app.settings["base_url"], "ddl")
    run = url_path_join(place, "runs", r"([\w.-]+)")
    static = {"path": str(Path(__file__).with_name("static"))}
    server.web_app.add_handlers(
        ".*$",
        [
            (run, _Page, runs),
            (url_path_join(run, "state"), _State, runs),
            (url_path_join(run, "stop"), _Stop, runs),
            (url_path_join(place, r"(view\.js)"), _Static, static),
        ],
    )
    os.environ[SERVED] = str(runs_dir())  # kernels inherit it
