"""Several hosts on one machine: what is planned, and what is said where it cannot be done.

The hosts themselves are made in tests/launch/test_hosts.py.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from ddl import hosts
from ddl.launcher.job import Job
from ddl.launcher.plan import plan
from helpers import program

FOLDER = Path("/runs/r1")


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr("ddl.records.machine.usable_cores", lambda: 8)
    return hosts.site(rate_mbit=100, hosts=2)


def planned(job, site):
    return plan(job, site, run_id="r1", folder=FOLDER)


def test_the_whole_command(site):
    job = Job("/course/x.py", ("--epochs", "2"), workers=4, nodes=2, cwd="/c", timeout_s=9)
    result = planned(job, site)
    python = sys.executable
    assert result.shell_line == (
        f"cd /c && {python} -m ddl.rank.netns_hosts --nodes 2 --rate-mbit 100 --processes 4 --threads 2 "
        "/course/x.py --epochs 2"
    )
    assert result.argv == (python, "-m", "ddl.rank.netns_hosts", "/runs/r1")
    assert result.where == "on 2 hosts made on this machine, with 100 Mbit/s between them"
    described = json.loads(dict(result.files)[FOLDER / "job.json"])
    assert (described["nodes"], described["site"]["rate_mbit"]) == (2, 100)


@pytest.mark.parametrize(
    "fails, reason",
    [
        (None, "ip and tc not found (on Debian and Ubuntu: apt-get install iproute2)"),
        ("tc qdisc", "the kernel refuses: Operation not permitted"),
    ],
)
def test_what_is_missing_is_named_and_what_the_kernel_refuses_is_said_in_its_words(
    tmp_path, monkeypatch, fails, reason
):
    """`unshare` simulates a kernel: it runs its command with one exception."""
    refuse = f'case "$last" in *"{fails}"*) echo "Operation not permitted" >&2; exit 1;; esac'
    for name in ("unshare", "nsenter", "mount", *(("ip", "tc") if fails else ())):
        program(tmp_path / name, "#!/bin/sh\n" + f"for last; do :; done\n{refuse}\n" * (name == "unshare"))
    monkeypatch.setattr(hosts, "environment", lambda: {**os.environ, "PATH": str(tmp_path)})
    assert hosts.permitted() == reason
