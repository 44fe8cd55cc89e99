"""Tests on ranks (``@pytest.mark.ranks``), in a pytest as a user starts it: what passes, and how each failure is told."""

import sys
import xml.etree.ElementTree as ElementTree

import pytest

from ddl.records.machine import host_name

LIBRARIES = {
    "horovod": """
import horovod.tensorflow as hvd
import tensorflow as tf

@pytest.fixture(params=[10])
def rank(request):
    hvd.init()
    return hvd.rank()

def total(number):
    return float(hvd.allreduce(tf.constant(float(number)), op=hvd.Sum))
""",
    "torch": """
import torch
import torch.distributed as dist

@pytest.fixture(params=[10])
def rank(request):
    dist.init_process_group("gloo")
    yield dist.get_rank()
    dist.destroy_process_group()

def total(number):
    figure = torch.tensor(float(number))
    dist.all_reduce(figure)
    return figure.item()
""",
}
TESTS = """
pytestmark = pytest.mark.ranks(2)
started = os.getpid()

@pytest.mark.parametrize("factor", [2])
def test_passes(rank, factor, tmp_path):
    (tmp_path / "file").write_text("of this rank")
    assert total(factor * (rank + 1)) == 3 * factor
    print("summed up")

def test_asserts(rank):
    if rank == 1:
        numbers = [1, 2, 3]
        assert sum(numbers) == 7
    total(rank)

@pytest.mark.ranks(2, timeout_s=15)
def test_hangs(rank):
    if rank == 1:
        time.sleep(600)
    total(rank)

class TestClass:
    def test_crashes(self, rank):
        if rank == 1:
            os.abort()
        total(rank)

def test_skips():
    Recorder().result({"loss": 1.0})
    pytest.skip("not today")

def test_has_a_result():
    Recorder().result({"loss": 1.0})

def test_exits():
    sys.exit(0)

@pytest.mark.xfail(reason="known", raises=pytest.fail.Exception)
def test_fails_as_expected():
    assert False

@pytest.mark.ranks(2, timeout=3)
def test_misspells():
    pass
"""


def of_library(library, folder):
    file = folder / "test_own.py"
    file.write_text(f"import os, sys, time\nimport pytest\nfrom ddl import Recorder\n{LIBRARIES[library]}{TESTS}")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error::pytest.PytestWarning\n")
    # It ends with 0 whatever its tests do.
    code = "import pytest, sys; pytest.main(sys.argv[1:])"
    return [sys.executable, "-c", code, file, f"--junitxml={folder}/tests.xml", "-q"], {"DDL_WARM": ""}


OUTPUTS = {"tests": of_library}


@pytest.fixture(scope="module", params=["horovod", pytest.param("torch", marks=pytest.mark.slow)])
def outcomes(request, output_of):
    """Return each test's result and text: {"test_asserts": ("failure", "rank 1 of 2 …")}."""
    pytest.importorskip(request.param)
    folder, _ = output_of("tests", request.param)
    cases = ElementTree.parse(folder / "tests.xml").iter("testcase")
    return {
        case.get("name").partition("[")[0]: next(
            ((found.tag, f"{found.get('message')}\n{found.text}") for found in case if found.tag != "system-out"),
            ("passed", case.findtext("system-out", "")),
        )
        for case in cases
    }


def test_fixtures_and_parameters_are_set_up_in_each_rank(outcomes):
    assert outcomes["test_passes"][0] == "passed", outcomes["test_passes"][1]
    assert outcomes["test_skips"][0] == outcomes["test_fails_as_expected"][0] == "skipped"
    assert "not today" in outcomes["test_skips"][1]
    assert outcomes["test_has_a_result"][0] == "passed", outcomes["test_has_a_result"][1]


@pytest.mark.parametrize(
    "test, words",
    [
        ("test_asserts", ["rank 1 of 2 on {host} raised AssertionError", "sum([1, 2, 3])", "rank 0"]),
        ("test_crashes", ["rank 1 of 2 on {host} was killed by SIGABRT", "in test_crashes", "rank 0"]),
        ("test_hangs", ["time limit of 15 s: the others were waiting for rank 1", "in test_hangs"]),
        ("test_exits", ["SystemExit(0)", "in test_exits"]),
        ("test_misspells", ["no option timeout"]),
    ],
)
def test_failure_is_the_launchers_report(outcomes, test, words):
    result, text = outcomes[test]
    assert result == "failure"
    assert [word for word in words if word.format(host=host_name()) not in text] == [], text
    before, _, _ = text.partition("rank 0 was here")
    assert "_pytest/" not in before and "pluggy/" not in before, before
