"""How a sandbox is chosen and asked for."""

import itertools
import sys

import pytest

from course.grader.limits import Limits
from helpers import program
from marking import sandbox


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return a function that puts a program on the path, which is empty otherwise."""
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox.find.cache_clear()

    yield lambda name, script: program(tmp_path / name, f"#!/bin/sh\n{script}\n")
    sandbox.find.cache_clear()


def test_nothing_runs_without_a_working_sandbox(programs):
    with pytest.raises(sandbox.SandboxMissing, match="apt install bubblewrap"):
        sandbox.start_worker(Limits())
    programs("bwrap", "exit 1")
    programs("setpriv", "exit 1")
    for said, advice in (
        ("No permissions to create a new namespace", "No permissions to create a new"),
        ("setting up uid map: Permission denied", "apparmor_restrict_unprivileged_userns"),
        ("loopback: Failed RTM_NEWADDR: Operation not permitted", "apparmor_restrict_unprivileged_userns"),
        ("Unknown option --size", "apt install"),
    ):
        programs("prlimit", f"echo 'bwrap: {said}' >&2; exit 1")
        with pytest.raises(sandbox.SandboxMissing, match=advice):
            sandbox.find()


@pytest.mark.parametrize("user", [0, 1000])
def test_bubblewrap_command(programs, monkeypatch, user):
    for name in ("bwrap", "prlimit", "setpriv"):
        programs(name, "")
    monkeypatch.setattr(sandbox.os, "geteuid", lambda: user)
    monkeypatch.setattr(sandbox, "_threads_of", {1000: 8}.__getitem__)
    line = sandbox.bubblewrap(Limits(processes=5, folder_bytes=77), ["python"], 9)
    text = " ".join(line)
    unshared = {part for part in line if part.startswith("--unshare")}
    if user:
        assert unshared == {"--unshare-all", "--unshare-user"}
        assert line[-2:] == ["--", "python"]
    else:
        assert unshared == {"--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"}
        assert text.endswith("--regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all -- python")
        # Another sandbox's processes, such as a fork bomb, don't count against this one.
        other = sandbox.bubblewrap(Limits(), ["python"], 9)
        assert len({part for part in [*line, *other] if part.startswith("--reuid")}) == 2
    assert {f"--nproc={21 if user else 13}", "--die-with-parent", "--new-session", "--clearenv"} <= set(line)
    assert "--size 77 --tmpfs /tmp " in text and "--size 77 --tmpfs /dev/shm " in text
    assert text.count("--tmpfs") == 2
    assert text.index("--remount-ro /dev --remount-ro /") > text.index("--dir /tmp/work")
    bound = {source for flag, source in itertools.pairwise(line) if flag == "--ro-bind"}
    assert not {"/", "/home", "/root", str(sandbox.ROOT), str(sandbox.ROOT / "grading")} & bound
    assert sys.prefix in bound
    # Nothing can be written but what lies in memory.
    assert not {part for part in line if part.startswith(("--bind", "--dev-bind", "--overlay"))}
