"""Lookup of notebooks by a lesson's name."""

import contextlib
import os
import textwrap
from collections import Counter
from pathlib import Path

from course.grader.cells import source_of
from ddl.errors import InputError, NotFound
from ddl.records.paths import source_dir

SUFFIX = ".ipynb"
FRESH = ".fresh"  # 3.Multi-GPU.fresh.ipynb


def find_notebook(name):
    """Return a notebook's path from a path, a lesson's name, or its first characters; raise NotFound if there is none.

    Lessons are searched in the working directory, its ``notebooks/``, and the course's.
    """
    path = Path(name)
    if path.suffix == SUFFIX:
        if not path.is_file():
            raise NotFound(f"there is no notebook {path}")
        return path
    known = lessons()
    return known[the_one("lesson", str(name), sorted(known))]


def beginning(name: str) -> str:
    """Return the prefix for `name`: a lesson's number alone means its core, ``2.`` not ``2b.``."""
    return f"{name}." if name.isdigit() else name


def the_one(kind, name, names):
    """Return the entry of `names` that equals or starts with `name`; raise NotFound unless there is exactly one."""
    found = [each for each in names if each == name] or [each for each in names if each.startswith(beginning(name))]
    if len(found) != 1:
        count = "more than one" if found else "no"
        have = ", ".join(names) or "none"
        raise NotFound(f"{count} {kind} begins with {name!r}; there are: {have}")
    return found[0]


def notebook_of_kernel():
    """Return the path of the notebook that this kernel was started for; None if unknown.

    Jupyter's server sets an environment variable, VS Code a variable of the notebook.
    """
    from IPython import get_ipython

    shell = get_ipython()
    in_vscode = shell.user_ns.get("__vsc_ipynb_file__") if shell else None
    path = Path(in_vscode or os.environ.get("JPY_SESSION_NAME", ""))
    return path if path.suffix == SUFFIX else None


def this_notebook():
    """Return this kernel's notebook, from the server or from the executed cells."""
    session = notebook_of_kernel()
    if session and session.is_file():
        return session
    ran, counts = executed(), Counter()
    for path in lessons().values():
        with contextlib.suppress(InputError):
            counts[path] = len(ran & {source_of(cell).strip() for cell in read_notebook(path)["cells"]})
    (best, most), (_, second) = [*counts.most_common(2), (None, 0), (None, 0)][:2]
    if most == second:
        raise InputError("cannot tell which lesson this is: name it, such as check('1.Gradient-Basics')")
    return best


def executed():
    """Return the text of the cells that this kernel has executed."""
    from IPython import get_ipython

    shell = get_ipython()
    return {source.strip() for source in shell.history_manager.input_hist_raw} - {""} if shell else set()


def read_notebook(path):
    """Return a saved notebook in nbformat 4; raise InputError if it cannot be read as one."""
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat has no common error type
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{path} cannot be read as a notebook ({textwrap.shorten(reason, 100)}): "
            "open it in JupyterLab and save it, or get a fresh copy"
        ) from None


def lessons():
    """Return the available notebooks: {name: path}."""
    course = source_dir().parent
    paths = [
        path
        for folder in (Path(), Path("notebooks"), course, course / "notebooks")
        for path in sorted(folder.glob(f"*{SUFFIX}"))
    ]
    # The nearest wins; fresh copies are found only by path.
    return {path.stem: path for path in reversed(paths) if not path.stem.endswith(FRESH)}
