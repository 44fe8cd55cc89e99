"""Several hosts on one machine: what is planned, and what is said where it cannot be done.

The hosts themselves are made in tests/launch/test_hosts.py.
"""

import json
import sys
from pathlib import Path

import pytest

from ddl import hosts
from ddl.job.job import Job
from ddl.job.plan import plan

FOLDER = Path("/runs/r1")


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr("ddl.records.machine.usable_cores", lambda: 8)
    return hosts.site(rate_mbit=100, hosts=2)


def planned(job, site):
    return plan(job, site, run_id="r1", folder=FOLDER)


def test_hosts_command_is_complete(site):
    job = Job("/course/x.py", ("--epochs", "2"), workers=4, nodes=2, cwd="/c", timeout_s=9)
    result = planned(job, site)
    python = sys.executable
    assert result.shell_line == (
        f"cd /c && {python} -m ddl.start.netns_hosts --nodes 2 --rate-mbit 100 --workers 4 --threads 2 "
        "/course/x.py --epochs 2"
    )
    assert result.argv == (python, "-m", "ddl.start.netns_hosts", "/runs/r1")
    assert result.where == "on 2 hosts made on this machine, with 100 Mbit/s between them"
    described = json.loads(dict(result.files)[FOLDER / "job.json"])
    assert (described["nodes"], described["site"]["rate_mbit"]) == (2, 100)
