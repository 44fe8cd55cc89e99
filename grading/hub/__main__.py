"""`make hub`: prepare a class's folder, then become its JupyterHub.

===================  =====================================================================
course.bundle        the course as committed, the source of attendees' copies
attendees/NAME/      an attendee's folder, with a copy of the course
exchange/            nbgrader's exchange: hand-ins (``DDL_EXCHANGE``)
queue/               the queue of launches by cores (``DDL_QUEUE``)
table/               shared progress of attendees (``DDL_CLASS``)
hub/                 JupyterHub's database and keys; the class's password, and yours
settings.py          your own settings, if any; read last
===================  =====================================================================
"""

import argparse
import getpass
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from ddl.errors import CourseError, InputError
from ddl.records.paths import course_root

SETTINGS = Path(__file__).with_name("jupyterhub_config.py")
MODES = {
    "attendees": 0o711,
    "exchange": 0o777,  # as nbgrader wants it
    "queue": 0o1777,  # like /tmp
    "table": 0o3733,  # everyone writes a file, and the folder's group reads them
    "hub": 0o700,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make hub", description="Start JupyterHub for a class.")
    parser.add_argument("--folder", type=Path, required=True, help="the class's folder")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--accounts", action="store_true", help="attendees have accounts of this system (needs root)")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    try:
        if arguments.accounts and os.geteuid():
            raise InputError("only root can start servers as other accounts")
        prepare(folder)
        write_bundle(course_root(), folder / "course.bundle")
    except (CourseError, OSError) as error:
        sys.exit(f"make hub: {error}")
    url = f"http://{arguments.host}:{arguments.port}"
    os.environ |= {"DDL_HUB": str(folder), "DDL_HUB_URL": url, "DDL_HUB_ACCOUNTS": "1" if arguments.accounts else ""}
    print(f"The class signs in at {url}: {sign_in(folder, arguments.accounts)}.", flush=True)
    os.chdir(folder / "hub")
    os.execv(sys.executable, [sys.executable, "-m", "jupyterhub", f"--config={SETTINGS}"])


def prepare(folder: Path) -> None:
    """Create a class's folders; the hub's is private."""
    for name, mode in MODES.items():
        path = folder / name
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)


def sign_in(folder: Path, accounts: bool) -> str:
    """Return instructions for signing in, creating missing passwords."""
    if accounts:
        return "with the names and passwords of this system's accounts"
    for name in ("password", "admin-password"):
        path = folder / "hub" / name
        if not path.exists():
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(9 if name == "password" else 32))
    return (
        f"with any name and the password in {folder / 'hub' / 'password'}; you as {getpass.getuser()}, with that in "
        "admin-password beside it"
    )


def write_bundle(course: Path, bundle: Path) -> None:
    """Write the course's last commit and its history to a bundle for git to clone and fetch.

    Git refuses to clone another user's folder, but not another user's bundle.
    """
    if _git(course, "rev-parse", "--is-shallow-repository") != "false":
        raise InputError(f"{course} is a clone without its history: `git fetch --unshallow` gets the rest")
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "course.git"
        _git(course, "clone", "--quiet", "--bare", course, copy)
        _git(copy, "update-ref", "refs/heads/course", "HEAD")  # independent of the branch's name
        _git(copy, "symbolic-ref", "HEAD", "refs/heads/course")
        _git(copy, "bundle", "create", "--quiet", bundle, "HEAD", "refs/heads/course")
    bundle.chmod(0o644)


def _git(folder, *arguments):
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it gave no message"])[-1]
        raise InputError(f"attendees get copies of the course from git, and git {arguments[0]} failed: {why}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
