"""The other stack: setup in a separate environment, its tests, and a lesson."""

import subprocess

import pytest

from helpers import ROOT

LOOKS_AT = [
    "requirements-next.lock",
    "tools/*",
    "source_code/ddl/records/stack.py",
    "source_code/course/training/*",
    "source_code/strategies/*",
    "source_code/course/multi_gpu/scripts/train_text.py",
]


@pytest.mark.nightly(*LOOKS_AT)
@pytest.mark.timeout(2400)
def test_next_stack_passes_its_full_run(tmp_path):
    log = tmp_path / "log"
    with open(log, "wb") as file:
        command = ["make", "test-all", "STACK=next"]
        status = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT).returncode
    assert status == 0, log.read_text(errors="replace")[-10_000:]
