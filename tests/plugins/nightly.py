"""Which tests of the nightly set are due: `make test-nightly DUE=1` runs these alone.

A test marked `nightly(*patterns)` names the files that it looks at. It is due when git says that one of them has
changed since the last commit that passed the whole set, which the newest line `Full-check: COMMIT` of a commit's message
names. Of all others, a fifth are due each day, by the date. `--minutes=M` begins none after M minutes, and names those
that it left out in build/left-out.txt.
"""

import datetime
import fnmatch
import subprocess
import time
import zlib

import pytest

PARTS = 5


def pytest_addoption(parser):
    parser.addoption("--due", action="store_true", help="of the nightly set, run what is due")
    parser.addoption("--minutes", type=float, help="begin no test after this time")


def pytest_configure(config):
    if config.option.minutes is not None:
        config.pluginmanager.register(_Deadline(config.rootpath, 60 * config.option.minutes))


class _Deadline:
    def __init__(self, root, seconds):
        self._file, self._end = root / "build" / "left-out.txt", time.monotonic() + seconds
        self._file.unlink(missing_ok=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        if time.monotonic() < self._end:
            return None
        with open(self._file, "a") as file:
            file.write(f"{item.nodeid}\n")
        return True


def pytest_collection_modifyitems(config, items):
    if config.getoption("due"):
        changed = changed_files(config.rootpath)
        day = datetime.date.today().toordinal()
        due = [item for item in items if is_due(item, changed, day)]
        config.hook.pytest_deselected(items=[item for item in items if item not in due])
        items[:] = due


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.option.due:
        session.exitstatus = pytest.ExitCode.OK


def is_due(item, changed, day):
    """Whether a test runs that day; tests of one module with the same patterns run together."""
    marker = item.get_closest_marker("nightly")
    if not marker:
        return False
    part = zlib.crc32(f"{item.path.name} {marker.args}".encode()) % PARTS
    return part == day % PARTS or any(fnmatch.filter(changed, pattern) for pattern in marker.args)


def changed_files(root):
    """Return the files that changed since the newest full check; all tracked files if there is none."""

    def git(*words):
        return subprocess.check_output(["git", *words], cwd=root, text=True).split("\n")[:-1]

    checked = git("log", "-1", "--format=%(trailers:key=Full-check,valueonly)", "--grep=^Full-check: ")
    return git("diff", "--name-only", checked[0]) if checked else git("ls-files")
