"""Real hosts on this machine: real `ip` and `tc`, real ranks, and nothing left of them."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from course.shared.bench import VARIANTS
from course.topology.hierarchy import variants
from course.topology.plot_hierarchy import plot_variants
from ddl import attach, hosts, launch
from ddl.follow import processes
from ddl.records.jsonfiles import read_json_lines
from helpers import LAUNCHING, printed, started, until

# It takes iproute2, and a machine that lets them make networks: not every one that runs fast tests.
WHERE = """
    import json, os, socket, subprocess, sys
    from pathlib import Path
    print(json.dumps({
        "rank": int(os.environ["HOROVOD_RANK"]), "local_rank": os.environ["HOROVOD_LOCAL_RANK"],
        "cross_rank": os.environ["HOROVOD_CROSS_RANK"], "host": socket.gethostname(),
        "address": socket.gethostbyname(socket.gethostname()),
        "network": os.readlink("/proc/self/ns/net"), "uid": os.getuid(),
        "interfaces": sorted(line.split(":")[0].strip() for line in
                             Path("/proc/net/dev").read_text().splitlines()[2:]),
        "limit": subprocess.run(["tc", "qdisc", "show", "dev", "eth0"], text=True,
                                capture_output=True).stdout,
        "gpus": os.environ["CUDA_VISIBLE_DEVICES"],
        "slurms": [name for name in os.environ if name.startswith("SLURM")],
    }))
"""
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def two_hosts():
    """A site with two hosts; afterward this machine's own network has to be as it was."""
    if reason := hosts.permitted():
        pytest.skip(f"several hosts cannot be made here: {reason}")
    before = own_network()
    yield hosts.site(rate_mbit=100, hosts=2)
    assert own_network() == before


def own_network():
    """Interfaces and named namespaces of this machine, and what /etc/hosts says."""
    names = Path("/run/netns")
    return (
        sorted(path.name for path in Path("/sys/class/net").iterdir()),
        sorted(path.name for path in names.iterdir()) if names.exists() else [],
        Path("/etc/hosts").read_text(),
    )


def networks():
    """The network namespaces that any process is in."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):  # it has ended
            found.add(os.readlink(path))
    return found


def up(run):
    """Whether all ranks are in their script."""
    paths = [run.folder / f"rank-{rank}.log" for rank in range(run.job["ranks"])]
    return all(path.exists() and "up" in path.read_text() for path in paths)


def test_two_hosts_have_two_networks(two_hosts, script, nothing_left, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "7")  # a job of Slurm around it is another matter
    run = launch(script(WHERE), workers=4, nodes=2, site=two_hosts)
    found = printed(run)
    places = [(rank["rank"], rank["local_rank"], rank["cross_rank"], rank["host"]) for rank in found]
    assert places == [(0, "0", "0", "host0"), (1, "1", "0", "host0"), (2, "0", "1", "host1"), (3, "1", "1", "host1")]
    assert [rank["address"] for rank in found] == [hosts.address(0)] * 2 + [hosts.address(1)] * 2
    assert found[0]["network"] == found[1]["network"] != found[2]["network"]
    assert os.readlink("/proc/self/ns/net") not in {rank["network"] for rank in found}
    for rank in found:
        assert {"eth0", "lo"} <= set(rank["interfaces"])
        assert "tbf" in rank["limit"] and "rate 100Mbit" in rank["limit"]
        assert rank["gpus"] == "" and rank["slurms"] == []
    assert [rank.host for rank in run.progress().ranks] == ["host0"] * 2 + ["host1"] * 2
    assert not {rank["network"] for rank in found} & networks()


@pytest.mark.nightly(*LAUNCHING)
@pytest.mark.parametrize("detach", [False, True])
def test_killed_launcher_leaves_no_hosts(two_hosts, script, nothing_left, detach):
    """By SIGKILL, which nobody can hear: the notebook's kernel, or `ddl.start.netns_hosts` where nobody looks on."""
    code = (
        "import sys, time; from ddl import hosts, launch; run = launch(sys.argv[1], workers=2, "
        f"nodes=2, site=hosts.site(100), wait=False, detach={detach}); print(run.id, flush=True); time.sleep(600)"
    )
    with started(sys.executable, "-c", code, script(SLEEP)) as kernel:
        run = attach(kernel.stdout.readline().strip())
        until(lambda: up(run))
        assert run.state == "running"
        launcher = read_json_lines(run.folder / "launcher.jsonl")[0]
        os.kill(launcher["pid"] if detach else kernel.pid, signal.SIGKILL)
        if not detach:
            kernel.wait()
        until(lambda: processes.of_run(run.id, besides={kernel.pid}) == [], timeout_s=20)
        assert run.state == ("lost" if detach else "stopped")


def test_all_reduce_variants_run_over_the_link(two_hosts, nothing_left):
    options = dict(timeout_s=200, sizes=[4, 2**16, 2**19], seconds=0.3)
    run = launch("hierarchical_allreduce.py", workers=4, nodes=2, site=two_hosts, **options)
    points = run.result["points"]
    assert [point["variant"] for point in points] == list(VARIANTS) * 3
    assert (run.result["hosts"], run.result["rate_mbit"]) == (2, 100)
    for point in points:
        spread, counted = point["seconds"], point["link_bytes"]
        assert 0 < spread["least"] <= spread["low"] <= spread["median"] <= spread["high"]
        assert counted["counted"] >= counted["expected"]
        if point["size_bytes"] == 2**19:
            assert counted["counted"] < 1.25 * counted["expected"], point["variant"]
            over_the_link = 8 * (counted["expected"] - hosts.BURST_BYTES) / 100e6
            assert spread["least"] >= over_the_link, point["variant"]
    assert len(variants(run)) == len(points) and "4 ranks on 2 hosts" in plot_variants(run).alt
