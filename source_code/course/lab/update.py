"""Updates to a new release of the course that keep the attendee's work; fresh copies of lessons.

The attendee's changes are the differences between the course folder, committed or not, and its release. Files are
copied to ``backup/`` before they are replaced. Until the last step, which moves the branch, an update can be
interrupted and repeated.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import nbformat

from course.lab.merge import merged
from course.lab.notebooks import FRESH, SUFFIX, find_notebook
from ddl.errors import CourseError
from ddl.records import files
from ddl.records.paths import course_root
from ddl.text import plural


class UpdateError(CourseError, ValueError):
    """Update failed; nothing was changed."""


def fresh(lesson: str, root: Path | None = None) -> Path:
    """Write a fresh copy of a lesson next to the attendee's; return its path."""
    root = root or _here()
    path = find_notebook(lesson).resolve()
    copy = path.with_name(f"{path.stem}{FRESH}{SUFFIX}")
    if copy.exists():
        raise UpdateError(f"{copy} already exists: rename or delete it first")
    base, _ = _releases(_clone(root))
    inside = path.is_relative_to(root.resolve())
    content = _released(root, base, path.relative_to(root.resolve()).as_posix()) if inside else None
    if content is None:
        raise UpdateError(f"{path.name} is not a notebook of the release in {root}")
    files.write(copy, content)
    return copy


def update(root: Path | None = None) -> str:
    """Update the course in a folder, keeping the attendee's work; return a summary.

    Raises UpdateError, without changing anything, if that fails.
    """
    root = _clone(root or _here())
    fetched = _git(root, "fetch", "--quiet", fails=True)
    if fetched.returncode:
        raise UpdateError(f"the new release cannot be fetched, and nothing was changed: {_last_line(fetched)}")
    base, new = _releases(root)
    if base == new:
        return "The course is up to date."
    names = _git(root, "diff", "--name-only", "--no-renames", "-z", base, new).stdout
    taken, written, gone, notes = [], {}, [], []
    for name in filter(None, names.decode().split("\0")):
        mine, before, now = _bytes(root / name), _released(root, base, name), _released(root, new, name)
        if mine == now:
            continue
        if mine != before and None not in (mine, before, now) and name.endswith(SUFFIX):
            written[name], merge_notes = _merged(mine, before, now)
            notes += [f"{name}: {note}" for note in merge_notes]
        elif now is not None:
            taken.append(name)
            if mine not in (before, None):
                notes.append(f"{name} was changed by you and by the release: yours is in the backup")
        elif mine == before:
            gone.append(name)
        else:
            notes.append(f"{name} is not in the new release: yours stays")
    backup = _back_up(root, [*taken, *written, *gone], base)
    commits = _git(root, "rev-list", "--count", f"{new}..HEAD").stdout.decode().strip()
    if commits != "0":
        branch = f"before-{backup.name}"
        _git(root, "branch", "--force", branch, "HEAD")
        notes.append(f"your own commits are kept on the branch {branch}")
    for name, content in written.items():
        files.write(root / name, content)
    for first in range(0, len(taken), 200):
        _git(root, "checkout", "--quiet", new, "--", *taken[first : first + 200])
    for name in gone:
        (root / name).unlink(missing_ok=True)
    _git(root, "reset", "--quiet", new)
    done = f"The course is now the newest release; {plural(len(written), 'notebook')} with your work merged."
    backed_up = f"What was there before is in {backup.relative_to(root)}." if backup.exists() else ""
    return "\n".join(filter(None, [done, backed_up, *notes]))


def _here():
    """Return the attendee's folder if this is one, otherwise the course's."""
    return Path.cwd() if Path("Start_Here.ipynb").exists() else course_root()


def _clone(root):
    """Return the folder; raise if it is not a clone, such as a copy inside another repository."""
    if shutil.which("git") is None:
        raise UpdateError("this needs git, which is not installed")
    done = _git(root, "rev-parse", "--show-toplevel", fails=True)
    said = " ".join(done.stderr.decode(errors="replace").split())
    if done.returncode and "not a git repository" not in said:  # such as a clone of another user's
        raise UpdateError(f"git refuses {root}: {said}")
    top = done.stdout.decode().rstrip("\n")
    if not top or not os.path.samefile(top, root):
        raise UpdateError(f"{root} is not a git clone of the course: clone it again")
    return root


def _releases(root):
    """Return the commits of the folder's release and of the newest fetched release."""
    upstream = _git(root, "rev-parse", "--verify", "--quiet", "@{upstream}", fails=True)
    upstream = upstream if upstream.returncode == 0 else _git(root, "rev-parse", "--verify", "origin/HEAD", fails=True)
    if upstream.returncode:
        raise UpdateError(f"{root} is a clone without a remote: clone the course again")
    new = upstream.stdout.decode().strip()
    base = _git(root, "merge-base", "HEAD", new, fails=True)
    if base.returncode:
        raise UpdateError(f"{root} has nothing in common with the course's releases: clone the course again")
    return base.stdout.decode().strip(), new


def _released(root, commit, name):
    """Return the bytes of a release's file, or None if it does not exist."""
    found = _git(root, "cat-file", "--filters", f"{commit}:{name}", fails=True)
    return found.stdout if found.returncode == 0 else None


def _merged(mine, base, theirs):
    """Merge three notebooks as bytes; a notebook that cannot be read counts as replaced."""
    try:
        found, notes = merged(*(nbformat.reads(each.decode(), as_version=4) for each in (mine, base, theirs)))
        return (nbformat.writes(found) + "\n").encode(), notes
    except Exception:  # nbformat has no common type for what it does not understand
        return theirs, ["yours cannot be read as a notebook, and is in the backup"]


def _back_up(root, names, base):
    """Back up the attendee's changed files; return the folder."""
    folder = root / "backup" / time.strftime("update-%Y-%m-%d-%H%M%S")
    for name in names:
        if _bytes(root / name) not in (None, _released(root, base, name)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    return folder


def _bytes(path):
    try:
        return os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
    except FileNotFoundError:
        return None


def _git(root, *arguments, fails=False):
    environment = os.environ | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, env=environment, check=False)
    if done.returncode and not fails:
        raise UpdateError(f"git {arguments[0]} failed: {_last_line(done)}; fix that and run this again")
    return done


def _last_line(done):
    return (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
