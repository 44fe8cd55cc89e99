"""Build, check and execute the lessons' notebooks.

    tools/lessons.py build          what `make notebooks` runs
    tools/lessons.py check          name every notebook that differs from its source
    tools/lessons.py run [LESSON] [--size smoke|reader] [--together N]

The source of a lesson is lessons/<lesson>.py, in jupytext's percent format. A lesson is executed with its model answers
in a separate folder under build/, without reading or writing notebooks/. Executed notebooks and their HTML go to
build/, without the answers. LESSON is a lesson's name or its beginning: `run 4`.
"""

import argparse
import base64
import copy
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ddl.records.log import last_lines
from ddl.records.machine import usable_cores
from line import Line

ROOT = Path(__file__).resolve().parent.parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
HOME = "Start_Here"
HINTS = "source_code/course/lab/hints.json"
NAVIGATION = {"tags": ["navigation"], "editable": False, "deletable": False}  # of cells that lead to other lessons
LESSON_LINK = re.compile(r'href="(?:\.\./|notebooks/)?([\w.-]+)\.ipynb"')  # pages lie in one folder
CELL = re.compile(r"Executing Cell (\d+)-")  # papermill's line before each
POLL_S = 0.5
SHOWN_LINES = 12  # of a failing cell, and of its traceback


@dataclass(frozen=True)
class Failure:
    """Execution of a notebook failed: one line, and details."""

    sentence: str
    details: str = ""


def sources(root: Path) -> list[Path]:
    """Return the lessons' sources in reading order."""
    return sorted(root.glob("lessons/*.py"), key=lambda source: (source.stem != HOME, source.stem))


def is_core(source: Path) -> bool:
    """Return whether a lesson is a core lesson: 2b.Links-in-Depth is a second notebook of 2.System-Topology."""
    return bool(re.match(r"\d+\.", source.stem))


def second_notebooks(core: Path, root: Path) -> list[Path]:
    """Return this lesson's second notebooks."""
    number = core.stem.partition(".")[0]
    return [each for each in sources(root) if re.match(rf"{number}[a-z]\.", each.stem)]


def notebook_path(source: Path, root: Path) -> Path:
    folder = root if source.stem == HOME else root / "notebooks"
    return folder / f"{source.stem}.ipynb"


def source_of(path: Path, root: Path) -> Path:
    return root / "lessons" / f"{path.stem}.py"


def begins_so(name: str, paths: list[Path]) -> list[Path]:
    """Return the lessons whose name starts this way; a number alone means the core lesson."""
    from course.lab.notebooks import beginning

    return [path for path in paths if path.stem.startswith(beginning(name))]


def notebooks(root: Path) -> list[Path]:
    """Return the lessons' notebooks in that order, without a reader's own notebooks."""
    return [notebook_path(source, root) for source in sources(root)]


def convert(source: str) -> str:
    """Return the text of the released notebook for a lesson's percent-format text."""
    import nbformat

    return nbformat.writes(release(master(source))) + "\n"


def navigated(notebook, source: Path, root: Path):
    """Add links to the previous and next lesson at the top and bottom; a second notebook links to its core."""
    import nbformat

    order = sources(root)
    home, cores = order[0], [each for each in order[1:] if is_core(each)]
    if source in (home, *cores):
        way = [home, *cores]
        position = way.index(source)
        around = [("Previous", way[position - 1])] if position > 1 else []
        around += [("Home", home)] if position else []
        around += [("In depth", other) for other in second_notebooks(source, root)] if position else []
        around += [("Next", other) for other in way[position + 1 : position + 2]]
    else:
        around = [("Core", next(each for each in cores if source in second_notebooks(each, root))), ("Home", home)]
    folder = notebook_path(source, root).parent
    links = [
        f"{word}: [{title(other)}]({os.path.relpath(notebook_path(other, root), folder)})" for word, other in around
    ]
    ends = [("foot", len(notebook.cells))] if source == home else [("head", 0), ("foot", len(notebook.cells) + 1)]
    for where, at in ends:  # what the course is comes before where it goes on
        cell = nbformat.v4.new_markdown_cell(" · ".join(links), id=f"navigation-{where}", metadata=NAVIGATION)
        notebook.cells.insert(at, cell)
    return notebook


def title(source: Path) -> str:
    """Return a lesson's link text: its heading; Start_Here's heading is the course's title."""
    return "Start here" if source.stem == HOME else source.read_text().partition("\n# # ")[2].partition("\n")[0]


def master(source: str):
    """Return the notebook for a lesson's percent-format text, including solutions.

    The same text always gives the same notebook: a cell's id is computed from its released content, so it is stable and
    does not depend on solutions.
    """
    import jupytext
    import nbformat

    notebook = jupytext.reads(source, fmt="py:percent")
    notebook.cells = [cell for cell in notebook.cells if not _gives_hints(cell)]
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata.pop("lines_to_next_cell", None)  # jupytext's metadata
    seen: Counter[str] = Counter()
    for cell, released in zip(notebook.cells, release(notebook).cells, strict=True):
        content = f"{released.cell_type}\n{released.source}"
        digest = hashlib.sha256(content.encode()).hexdigest()[:12]
        seen[digest] += 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
    nbformat.validate(notebook)
    return notebook


def _gives_hints(cell) -> bool:
    return "hints" in cell.metadata.get("tags", ())


def hints(source: str) -> dict[str, list[str]]:
    """Return the hints in a lesson's percent-format text: {question: [a nudge, the idea, the first line]}."""
    import jupytext

    found = {}
    for cell in filter(_gives_hints, jupytext.reads(source, fmt="py:percent").cells):
        question, _, steps = cell.source.partition("\n")
        found[question] = [" ".join(step.split()) for step in re.split(r"^\d\. ", steps, flags=re.MULTILINE)[1:]]
    return found


def hidden_hints(root: Path) -> str:
    """Return the encoded text of the package's hints."""
    lessons = {source.stem: hints(source.read_text()) for source in sources(root)}
    encoded = {
        lesson: {q: base64.b64encode(json.dumps(steps).encode()).decode() for q, steps in found.items()}
        for lesson, found in lessons.items()
        if found
    }
    return json.dumps(encoded, indent=1) + "\n"


def release(notebook):
    """Return the released version of a lesson: no outputs, solutions or hidden tests.

    These are the steps of `nbgrader generate_assignment` in order, except writing to the gradebook.
    """
    from nbgrader import preprocessors as steps

    notebook, resources = copy.deepcopy(notebook), {}
    for step in (
        steps.LockCells(),
        steps.ClearSolutions(),
        steps.ClearOutput(),
        steps.CheckCellMetadata(),
        steps.ComputeChecksums(),
        steps.ClearHiddenTests(),
        # Mark schemes may be in any read-only cell: see nbgrader_config.py.
        steps.ClearMarkScheme(enforce_metadata=False),
        steps.ComputeChecksums(),
        steps.CheckCellMetadata(),
    ):
        notebook, resources = step.preprocess(notebook, resources)
    return notebook


def released(source: Path, root: Path):
    """Return the released version of a lesson; exit with its name if nbgrader rejects it."""
    try:
        return release(master(source.read_text()))
    except Exception as error:  # nbgrader has no common error type
        sys.exit(f"{source.relative_to(root)}: {type(error).__name__}: {error}")


def converted(source: Path, root: Path) -> str:
    """Return the text of the notebook in notebooks/."""
    import nbformat

    return nbformat.writes(navigated(released(source, root), source, root)) + "\n"


def build(root: Path) -> int:
    for source in sources(root):
        path = notebook_path(source, root)
        path.parent.mkdir(exist_ok=True)
        if path.exists() and holds_work(path):
            kept = root / "backup" / time.strftime("notebooks-%Y-%m-%d-%H%M%S") / path.name
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, kept)
            print(f"{path.relative_to(root)} had answers or outputs: it is kept as {kept.relative_to(root)}")
        path.write_text(converted(source, root))
        print(path.relative_to(root))
    if (root / HINTS).parent.exists():
        (root / HINTS).write_text(hidden_hints(root))
    return 0


def holds_work(path: Path) -> bool:
    """Return whether a notebook has outputs or answers, or cannot be read."""
    import nbformat

    from course.lab.progress import questions_of
    from ddl.errors import CourseError

    try:
        answered = any(question.answered for question in questions_of(path))
    except CourseError:
        return True
    return answered or any(cell.get("execution_count") for cell in nbformat.read(path, as_version=4).cells)


def check(root: Path) -> int:
    """Report notebooks that differ from their sources."""
    expected = {notebook_path(source, root): source for source in sources(root)}
    wrong = [
        path for path, source in expected.items()
        if not path.exists() or path.read_text() != converted(source, root)
    ]  # fmt: skip
    for path in wrong:
        source = expected[path].relative_to(root)
        print(f"{path.relative_to(root)} differs from {source}: edit that, then `make notebooks`.")
    kept = root / HINTS
    if kept.parent.exists() and (not kept.exists() or kept.read_text() != hidden_hints(root)):
        wrong.append(kept)
        print(f"{HINTS} differs from the hints under lessons/: `make notebooks`.")
    return int(bool(wrong))


def run(root: Path, lesson: str, size: str, together: int) -> int:
    """Execute lessons, `together` at the same time, with a line for each and for all; list failures at the end."""
    chosen = begins_so(lesson, sources(root))
    if not chosen:
        have = ", ".join(source.stem for source in sources(root)) or "none"
        print(f"No lesson begins with {lesson!r}. There are: {have}.", file=sys.stderr)
        return 1
    course = {notebook_path(source, Path()): converted(source, root) for source in sources(root)}
    answered = {source: navigated(master(source.read_text()), source, root) for source in chosen}
    for source, notebook in answered.items():
        if not any("parameters" in cell.metadata.get("tags", []) for cell in notebook.cells):
            print(f"{source.relative_to(root)} has no cell with the tag `parameters`, so its size cannot be set.")
            return 1
    line, waiting, running = Line("lessons", f"0 of {len(chosen)}"), list(chosen), []
    failures = {}
    try:
        while waiting or running:
            while waiting and len(running) < together:
                source = waiting.pop(0)
                running.append(Execution(answered[source], source, root, size, course))
            time.sleep(POLL_S)
            for execution in [each for each in running if each.process.poll() is not None]:
                failure = execution.end()
                running.remove(execution)
                if failure:
                    failures[execution.source] = failure
                line.keep(f"lesson   {execution} {'FAILED' if failure else 'passed'}")
            line.name = f"{len(chosen) - len(waiting) - len(running)} of {len(chosen)}"
            line.show("; ".join(map(Execution.where, running)))
    finally:
        for execution in running:
            execution.stop()
    line.end(f"{len(failures)} FAILED" if failures else "passed")
    failures = {source: failures[source] for source in chosen if source in failures}
    for failure in failures.values():
        print(f"\n{failure.details}".rstrip())
    for source, failure in failures.items():
        print(f"{source.relative_to(root)}: {failure.sentence}")
    return int(bool(failures))


def work_folder(stem: str, root: Path) -> Path:
    """Return the folder for a lesson's execution, which is removed afterward."""
    return root / "build" / "work" / stem


class Execution:
    """A lesson's answered notebook under papermill, in this Python, next to a fresh copy of the course's notebooks.

    Its end writes the notebook and its HTML to build/, without the answers.
    """

    def __init__(self, notebook, source: Path, root: Path, size: str, course: dict[Path, str]) -> None:
        import nbformat

        self.notebook, self.source, self.started = notebook, source, time.monotonic()
        build = root / "build"
        self.result, self.log = build / f"{source.stem}.ipynb", build / f"{source.stem}.log"
        self.work = work_folder(source.stem, root)
        self.executed = self.work / "executed.ipynb"  # so that build/ has a whole lesson, or none
        shutil.rmtree(self.work, ignore_errors=True)
        for path, text in course.items():
            (self.work / path).parent.mkdir(parents=True, exist_ok=True)
            (self.work / path).write_text(text)
        answered = notebook_path(source, self.work)  # location expected by `check()`
        notebook.metadata["lessons"] = {"answered": True}  # for the engine: no answer may be missing
        nbformat.write(notebook, answered)
        env = {k: v for k, v in os.environ.items() if k != "JUPYTER_PATH"}
        env |= {"JUPYTER_PREFER_ENV_PATH": "1", "PYTHONNOUSERSITE": "1"}
        env["DDL_VIEW"] = "live"  # the website shows how launches ended
        env |= {"PATH": f"{Path(sys.executable).parent}:{env['PATH']}", "DDL_RUNS_DIR": str(build / "runs")}
        papermill = [sys.executable, "-m", "papermill", answered, self.executed, "-p", "size", size]
        papermill += ["--engine", "lessons", "--kernel", "python3", "--cwd", answered.parent]
        papermill += ["--no-progress-bar", "--log-output"]
        for old in (self.result, self.log):
            old.unlink(missing_ok=True)
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(papermill, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env)

    def __str__(self) -> str:
        return f"{self.source.stem:<27} {time.monotonic() - self.started:4.0f} s "

    def where(self) -> str:
        """Return which of the cells runs; papermill adds one with the parameters."""
        begun = [found[1] for text in last_lines(self.log, 1000) if (found := CELL.match(text))]
        return self.source.stem + (f" cell {begun[-1]} of {len(self.notebook.cells) + 1}" if begun else "")

    def stop(self) -> None:
        """End papermill, and with it the kernel."""
        self.process.terminate()
        self.process.wait()
        self._leave()

    def end(self) -> Failure | None:
        """Return how an ended execution failed, if it did."""
        try:
            if self.process.returncode == 0:
                return None
            return failing_cell(self.executed) or Failure(
                f"stopped without a failing cell; the log is {self.log}", "\n".join(last_lines(self.log, 15))
            )
        finally:
            self._leave()

    def _leave(self) -> None:
        write_without_answers(self.executed, self.result, self.notebook)
        shutil.rmtree(self.work, ignore_errors=True)


def failing_cell(result: Path) -> Failure | None:
    """Return the cell that ended a notebook's execution, numbered as in its source."""
    import nbformat

    if not result.exists():
        return None
    ours = {"injected-parameters", "papermill-error-cell-tag", "navigation"}  # papermill's additions, and `navigated`'s
    cells = [
        cell for cell in nbformat.read(result, as_version=4).cells
        if not ours & set(cell.metadata.get("tags", []))
    ]  # fmt: skip
    last = None
    for number, cell in enumerate(cells, start=1):
        source = [f"    {text}" for text in cell.source.splitlines()[:SHOWN_LINES]]
        shown = [f"cell {number}:", *source]
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                sentence = f"cell {number} raised {output.ename}: {output.evalue}".splitlines()[0]
                trace = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output.traceback)).splitlines()
                return Failure(sentence, "\n".join(shown + trace[-SHOWN_LINES:]))
        if cell.metadata.get("papermill", {}).get("exception") is False:  # it had started
            last = Failure(f"cell {number} ended its kernel", "\n".join(shown))
    return last


def write_without_answers(executed: Path, result: Path, answered) -> None:
    """Write an executed lesson with the released stubs in place of its answers, and its HTML."""
    import nbformat
    from nbconvert import HTMLExporter

    if not executed.exists():
        return
    handed = {cell.id: cell.source for cell in release(answered).cells}
    notebook = nbformat.read(executed, as_version=4)
    for cell in notebook.cells:
        cell.source = handed.get(cell.id, cell.source)
    del notebook.metadata["lessons"]
    nbformat.write(notebook, executed)
    html, _ = HTMLExporter().from_notebook_node(notebook, {"metadata": {"name": result.stem}})
    result.with_suffix(".html").write_text(LESSON_LINK.sub(r'href="\1.html"', html))
    executed.replace(result)


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Build, check and execute the lessons.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build")
    commands.add_parser("check")
    runner = commands.add_parser("run")
    runner.add_argument("lesson", nargs="?", default="")
    runner.add_argument("--size", choices=("smoke", "reader"), default="smoke")
    runner.add_argument("--together", type=int, help="lessons at the same time: one, or at smoke size one a core")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if given.command == "run":
            together = given.together or (usable_cores() if given.size == "smoke" else 1)
            return run(root, given.lesson, given.size, together)
        return {"build": build, "check": check}[given.command](root)
    except KeyboardInterrupt:
        print("\nlessons: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
