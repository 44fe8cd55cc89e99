"""Which slow and nightly tests continuous integration runs: `make test-due MINUTES=9`.

A test marked `slow(*patterns)` or `nightly(*patterns)` names the files that it looks at. It is due if git says that one
of them, or the test's file, has changed since the newest commit that is a day older than the last one, or that passed
all sets, which a line `Full-check: COMMIT` of a commit's message names. The slow tests of the files in `SMOKE` are always
due. These begin; then the tests of what changed last; then the nightly ones. `--minutes=M` begins none after M minutes,
and no nightly test after two minutes of them; it names those that it left out in build/left-out.txt.
"""

import fnmatch
import subprocess
import time

import pytest

SMOKE = [
    "tests/launch/test_failures.py",
    "tests/launch/test_fork_server.py",
    "tests/launch/test_launch.py",
    "tests/launch/test_restarts.py",
    "tests/unit/*",
    "tests/notebooks/test_runner.py",
    "tests/browser/test_view.py",
]
NIGHTLY_S = 120


def pytest_addoption(parser):
    parser.addoption("--due", action="store_true", help="of the slow and the nightly set, run what is due")
    parser.addoption("--minutes", type=float, help="begin no test after this time")


def pytest_configure(config):
    if config.option.minutes is not None:
        config.pluginmanager.register(_Deadline(config.rootpath, 60 * config.option.minutes))


class _Deadline:
    def __init__(self, root, seconds):
        self._file, self._end, self._nightly_s = root / "build" / "left-out.txt", time.monotonic() + seconds, 0
        self._file.unlink(missing_ok=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        spent = item.get_closest_marker("nightly") and self._nightly_s > NIGHTLY_S
        if time.monotonic() < self._end and not spent:
            return None
        with open(self._file, "a") as file:
            file.write(f"{item.nodeid}\n")
        item.session._setupstate.teardown_exact(nextitem)  # fixtures that the test before has left for this one
        return True

    def pytest_runtest_logreport(self, report):
        self._nightly_s += report.duration if "nightly" in report.keywords else 0


def pytest_collection_modifyitems(config, items):
    if config.getoption("due"):
        ages = changed_files(config.rootpath)
        due = {item: age for item in items if (age := age_of(item, ages)) is not None}
        config.hook.pytest_deselected(items=[item for item in items if item not in due])
        items[:] = sorted(due, key=lambda item: (item.get_closest_marker("nightly") is not None, due[item]))


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.option.due:
        session.exitstatus = pytest.ExitCode.OK


def age_of(item, ages):
    """Return the age of the newest change that makes a test due: -1 for one that always is, None for none."""
    path = item.nodeid.partition("::")[0]
    if item.get_closest_marker("slow") and any(fnmatch.fnmatch(path, pattern) for pattern in SMOKE):
        return -1
    patterns = {
        path,
        *(pattern for mark in item.iter_markers() if mark.name in ("slow", "nightly") for pattern in mark.args),
    }
    return min(
        (age for file, age in ages.items() if any(fnmatch.fnmatch(file, each) for each in patterns)), default=None
    )


def changed_files(root):
    """Return the age of each changed file, in commits: 0 for the newest; all tracked files without a base."""

    def git(*words):
        return subprocess.check_output(["git", *words], cwd=root, text=True).split("\n")[:-1]

    (newest,) = git("log", "-1", "--format=%ct")
    bases = git("log", "-1", "--format=%H", f"--until={int(newest) - 86_400}")
    bases += git("log", "-1", "--format=%(trailers:key=Full-check,valueonly)", "--grep=^Full-check: ")[:1]
    if not bases:
        return dict.fromkeys(git("ls-files"), 0)
    ages, age = {}, -1
    for line in git("log", "--format=%x00", "--name-only", "--no-renames", "HEAD", *(f"^{base}" for base in bases)):
        age += line == "\0"
        ages.setdefault(line, age)
    return ages
