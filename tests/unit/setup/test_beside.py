"""What runs beside the tests is waited for, says why it failed, and ends with them."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from beside import Beside, commands_of
from ddl.launcher import processes
from helpers import ROOT, until


@pytest.fixture
def runner():
    runner = Beside()
    yield runner
    runner.end()


def test_commands_run_in_their_order_and_a_failure_says_why(runner):
    talks = "import os, sys; print(os.environ['WHO'], sys.argv[1])"

    def first(folder):
        return [sys.executable, "-c", talks, folder], {"WHO": "me"}

    runner.begin({"first": first, "second": lambda _: (["ls", "/no/where"], {})})
    folder, printed = runner.result("first")
    assert printed == f"me {folder}\n" and folder.is_dir()
    with pytest.raises(AssertionError, match="/no/where"):
        runner.result("second")


def test_what_still_runs_ends_with_the_tests(monkeypatch):
    monkeypatch.setenv("TEST_OF_BESIDE", str(id(monkeypatch)))
    before = psutil.Process().children()
    runner = Beside(grace_s=0.1)
    stubborn = "trap '' TERM; touch $THERE; sleep 100"
    there = runner.folder / "there"

    def endless(_):
        return ["sh", "-c", stubborn], {"THERE": str(there)}

    runner.begin({"endless": endless, "after": lambda _: (["true"], {})})
    until(there.exists)
    assert psutil.Process().children() == before  # tests count their own
    runner.end()
    assert processes.of_run(str(id(monkeypatch)), mark="TEST_OF_BESIDE") == []
    assert not runner.folder.exists()


def test_only_what_the_selected_tests_need_is_run():
    module = SimpleNamespace(__name__="tests.some", BESIDE={"small": "one command", "large": lambda *asked: [*asked]})
    item = SimpleNamespace(module=module, fixturenames=("tmp_path", "small"))
    assert commands_of([item, item]) == {"tests.some.small": "one command"}
    each = SimpleNamespace(module=module, fixturenames=("large",), callspec=SimpleNamespace(params={"large": 2}))
    assert commands_of([each])["tests.some.large[2]"]("folder") == [2, "folder"]
    assert commands_of([SimpleNamespace(fixturenames=())]) == {}


def test_nothing_is_left_of_tests_that_were_killed():
    code = "import time; from beside import Beside; b = Beside(0.1); b.begin({'a': lambda _: (['sleep', '99'], {})})"
    code += "; print(b.folder, flush=True); time.sleep(99)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "TEST_OF_BESIDE": "killed"}
    tests = subprocess.Popen([sys.executable, "-c", code], env=environment, text=True, stdout=subprocess.PIPE)
    folder = Path(tests.stdout.readline().strip())
    tests.kill()
    tests.communicate()
    until(lambda: not folder.exists() and not processes.of_run("killed", mark="TEST_OF_BESIDE"))
