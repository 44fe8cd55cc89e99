"""The course's files, as JupyterLab opens, lists and saves them.

A notebook that is opened or saved shows its runs as they stand by then: those that go on come back into the cell that
launched them after a reload of the page, and none is kept as going on after its end. Opening a notebook changes nothing
in it, though JupyterLab notes in each which Python runs it.
"""

import asyncio
import contextlib
import os
from functools import cache
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from ddl.display.panel import MARK, LastLines, mark, mime_bundle
from ddl.errors import CourseError
from ddl.launcher.run import Run, attach, runs
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import DamagedFile, read_json

# Of the course's top level, what somebody who works through it opens.
ATTENDEES = ("Start_Here.ipynb", "notebooks", "source_code", "runs")
MAINTAINERS = (
    *("grading", "lessons", "tests", "tools", "benchmarks", "build", "containers", "docs", "images", "results"),
    *("AGENTS.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "SECURITY.md"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "LICENSE-CC-BY-4.0", "Makefile", "README.md", "environment.yml"),
    *("environment-next.yml", "pyproject.toml", "requirements.lock", "requirements-gpu.lock", "requirements-next.lock"),
    *("ddl-course.sif", "ddl-course-next.sif"),
)
KERNEL = ("kernelspec", "language_info")  # of a notebook's metadata
RECENT = 40  # runs among which a notebook's are looked for


class CourseFiles(AsyncLargeFileManager):
    """Opens and saves notebooks with their runs as they stand, and with their kernel as their file has it."""

    async def get(self, path, content=True, type=None, **options):
        model = await super().get(path, content, type, **options)
        if content and model["type"] == "notebook":
            saved = model["last_modified"].timestamp()
            await asyncio.to_thread(bring_up_to_date, model["content"], Path(path).name, saved)
            metadata = model["content"]["metadata"]
            metadata.update(nbformat.from_dict(await asyncio.to_thread(_kernel, _kernel_name(metadata))))
        return model

    async def save(self, model, path=""):
        if model.get("type") == "notebook" and model.get("content"):
            await asyncio.to_thread(bring_up_to_date, model["content"])
            await asyncio.to_thread(_keep_kernel, model["content"]["metadata"], self._get_os_path(path))
        return await super().save(model, path)


@cache
def _kernel(name):
    """Return what JupyterLab puts into a notebook's metadata once this kernel runs; nothing for one of no Python."""
    from ipykernel.ipkernel import IPythonKernel

    try:
        spec = KernelSpecManager().get_kernel_spec(name)
    except (NoSuchKernel, ValueError):
        return {}
    if spec.language != "python":
        return {}
    kernel = {"name": name, "display_name": spec.display_name, "language": spec.language}
    return {"kernelspec": kernel, "language_info": dict(IPythonKernel.language_info)}


def _keep_kernel(metadata, path):
    """Leave what a notebook's file says of its kernel, which another Python's patch level would change."""
    try:
        saved = nbformat.read(path, as_version=4).metadata
    except Exception:  # it is new, or no notebook: nbformat has no common type for that
        return
    if _kernel_name(saved) and _kernel_name(saved) == _kernel_name(metadata):
        kept = {key: saved[key] for key in KERNEL if key in saved}
        for key in KERNEL:
            metadata.pop(key, None)
        metadata.update(kept)


def _kernel_name(metadata):
    return metadata.get("kernelspec", {}).get("name", "")


class AttendeesFiles(CourseFiles):
    """Lists the course's top level without what only maintainers need. It can be opened by name: notebooks show it."""

    async def get(self, path, content=True, type=None, **options):
        model = await super().get(path, content, type, **options)
        if content and model["type"] == "directory" and not path.strip("/"):
            listed = [each for each in model["content"] if each["name"] not in MAINTAINERS]
            if any(each["name"] == ATTENDEES[0] for each in listed):  # this is the course's folder
                model["content"] = listed
        return model


def bring_up_to_date(notebook, name=None, saved=0.0):
    """Show runs in the outputs of a notebook (in nbformat 4, changed in place) as they stand now.

    With the `name` of its file, and when it was `saved` (in seconds since the epoch), also put back what it was not
    saved with: the runs of its cells that go on, or have ended since.
    """
    cells = {cell.get("id"): cell for cell in notebook["cells"] if cell["cell_type"] == "code"}
    for cell in cells.values():
        for number, output in enumerate(cell.get("outputs", ())):
            shown = output.get("metadata", {}).get(MARK, {})
            if shown.get("over") is False:
                with contextlib.suppress(CourseError):  # there is no such run any more: it stays as it was
                    cell["outputs"][number] = _output(attach(shown.get("run")))
    if name:
        for cell, launched in _launched(cells, name, saved).items():
            _put_back(cells[cell], launched)


def _launched(cells, name, saved):
    """Runs that these cells show and the saved notebook cannot: {cell's id: [run, ...]}, oldest first."""
    found = {}
    try:
        recent = runs()[-RECENT:]
    except CourseError:
        return {}  # a folder that cannot be read: launching says so
    for run in recent:
        try:
            shown = read_json(RunFolder(run.folder).shown) or {}
        except DamagedFile:
            continue
        if shown.get("cell") not in cells or os.path.basename(shown.get("notebook", "")) != name:
            continue
        progress = run.progress()
        if not progress.over or run.job.get("created", 0) + progress.elapsed_s > saved:
            found.setdefault(shown["cell"], []).append((shown["execution"], run))
    # What an earlier execution of the cell has shown is gone.
    return {
        cell: [run for execution, run in launched if execution == launched[-1][0]] for cell, launched in found.items()
    }


def _put_back(cell, launched):
    shown = {output.get("metadata", {}).get(MARK, {}).get("run") for output in cell.get("outputs", ())}
    if shown.intersection(run.id for run in launched):
        return
    cell["outputs"] = [_output(run) for run in launched]
    # The server has made all of them. The notebook itself may never have been signed.
    cell.setdefault("metadata", {})["trusted"] = True


def _output(run: Run):
    """A run as a cell's output."""
    progress = run.progress()
    bundle = mime_bundle(progress, LastLines()(progress), served=True, back=True)
    return nbformat.v4.new_output("display_data", bundle, metadata=mark(progress))
