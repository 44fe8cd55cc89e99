"""Run no test twice in a row: `make test PASSED=FILE` notes what passes, `make test-all PASSED=FILE` leaves that out.

The note is of one tree of files: after a change to any, all tests run. What was skipped or failed is run again.
Each of the two sessions of `make test` adds a line of its own.
"""

import hashlib
import json
import subprocess
from pathlib import Path

from ddl.records.jsonfiles import append_json_line


def pytest_addoption(parser):
    parser.addoption("--note-passed", type=Path, help="add the tests that pass to this file")
    parser.addoption("--leave-out-passed", type=Path, help="leave out the tests that this file notes")


def pytest_configure(config):
    if file := config.getoption("note_passed"):
        config.pluginmanager.register(_Noting(file, _tree(config.rootpath)))


def pytest_collection_modifyitems(config, items):
    file = config.getoption("leave_out_passed")
    if not file or not file.exists():
        return
    tree = _tree(config.rootpath)
    sessions = [json.loads(line) for line in file.read_text().splitlines()]
    passed = {test for noted in sessions if noted["tree"] == tree for test in noted["passed"]}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


class _Noting:
    def __init__(self, file, tree):
        self._file, self._tree, self._outcomes = file, tree, {}

    def pytest_runtest_logreport(self, report):
        self._outcomes.setdefault(report.nodeid, set()).add(report.outcome)

    def pytest_sessionfinish(self):
        passed = [test for test, outcomes in self._outcomes.items() if outcomes == {"passed"}]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        append_json_line(self._file, {"tree": self._tree, "passed": passed})


def _tree(root):
    """A digest of all files that git sees, as they are."""
    names = subprocess.check_output(["git", "ls-files", "-zco", "--exclude-standard"], cwd=root).split(b"\0")
    digest = hashlib.sha256()
    for name in sorted(filter(None, names)):
        path = root / name.decode()
        digest.update(name + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return digest.hexdigest()
