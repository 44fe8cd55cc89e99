"""JupyterLab's contents manager for the course.

When a notebook is opened or saved, its runs are updated: after a page reload, active runs reappear in the cell that
launched them, and ended runs are never saved as active. Opening a notebook does not modify it, although JupyterLab
stores its Python version in each.
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
from ddl.follow.run import Run, attach, runs
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import DamagedFile, read_json

# Top-level files for attendees.
ATTENDEES = ("Start_Here.ipynb", "notebooks", "source_code", "runs")
MAINTAINERS = (
    *("grading", "lessons", "tests", "tools", "benchmarks", "findings"),
    *("build", "containers", "docs", "images", "results"),
    *("AGENTS.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "SECURITY.md"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "LICENSE-CC-BY-4.0", "Makefile", "README.md", "environment.yml"),
    *("environment-next.yml", "pyproject.toml", "requirements.lock", "requirements-gpu.lock", "requirements-next.lock"),
    *("ddl-course.sif", "ddl-course-next.sif"),
)
KERNEL = ("kernelspec", "language_info")  # of a notebook's metadata
RECENT = 40  # number of recent runs to search


class CourseFiles(AsyncLargeFileManager):
    """Contents manager that updates runs in notebooks and preserves their kernel metadata."""

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
    """Return the metadata that JupyterLab adds for this kernel; empty for other languages."""
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
    """Keep a file's kernel metadata, which would change with Python's patch version."""
    try:
        saved = nbformat.read(path, as_version=4).metadata
    except Exception:  # new or invalid: nbformat has no common error type
        return
    if _kernel_name(saved) and _kernel_name(saved) == _kernel_name(metadata):
        kept = {key: saved[key] for key in KERNEL if key in saved}
        for key in KERNEL:
            metadata.pop(key, None)
        metadata.update(kept)


def _kernel_name(metadata):
    return metadata.get("kernelspec", {}).get("name", "")


class AttendeesFiles(CourseFiles):
    """Contents manager that hides maintainers' files at the top level; they can still be opened by name."""

    async def get(self, path, content=True, type=None, **options):
        model = await super().get(path, content, type, **options)
        if content and model["type"] == "directory" and not path.strip("/"):
            listed = [each for each in model["content"] if each["name"] not in MAINTAINERS]
            if any(each["name"] == ATTENDEES[0] for each in listed):  # this is the course's folder
                model["content"] = listed
        return model


def bring_up_to_date(notebook, name=None, saved=0.0):
    """Update the runs in a notebook's outputs (nbformat 4, in place).

    With the `name` of its file and the time when it was `saved` (seconds since the epoch), also restore its cells' runs
    that are active or have ended since.
    """
    cells = {cell.get("id"): cell for cell in notebook["cells"] if cell["cell_type"] == "code"}
    for cell in cells.values():
        for number, output in enumerate(cell.get("outputs", ())):
            shown = output.get("metadata", {}).get(MARK, {})
            if shown.get("over") is False:
                with contextlib.suppress(CourseError):  # the run is gone: keep the output
                    cell["outputs"][number] = _output(attach(shown.get("run")))
    if name:
        for cell, launched in _launched(cells, name, saved).items():
            _put_back(cells[cell], launched)


def _launched(cells, name, saved):
    """Return runs of these cells that are missing in the saved notebook: {cell's id: [run, ...]}, oldest first."""
    found = {}
    try:
        recent = runs()[-RECENT:]
    except CourseError:
        return {}  # unreadable folder; launching reports it
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
    # Outputs of earlier executions of the cell are gone.
    return {
        cell: [run for execution, run in launched if execution == launched[-1][0]] for cell, launched in found.items()
    }


def _put_back(cell, launched):
    shown = {output.get("metadata", {}).get(MARK, {}).get("run") for output in cell.get("outputs", ())}
    if shown.intersection(run.id for run in launched):
        return
    cell["outputs"] = [_output(run) for run in launched]
    # The server created all of them. The notebook may be unsigned.
    cell.setdefault("metadata", {})["trusted"] = True


def _output(run: Run):
    """A run as a cell's output."""
    progress = run.progress()
    bundle = mime_bundle(progress, LastLines()(progress), served=True, back=True)
    return nbformat.v4.new_output("display_data", bundle, metadata=mark(progress))
