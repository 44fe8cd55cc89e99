"""Output of the installed hwloc."""

import shutil
import subprocess

import pytest

from course.topology import hwloc, sysfs

pytestmark = pytest.mark.slow  # takes hwloc, which only the full run installs


def lstopo(*options):
    command = shutil.which("lstopo-no-graphics") or shutil.which("lstopo")
    if not command:
        pytest.skip("hwloc's lstopo is not installed (Debian: apt-get install hwloc)")
    return subprocess.run([command, *options, "--of", "xml"], check=True, capture_output=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("machine", "numas", "cores", "threads"),
    [
        ("pack:2 numa:2 l3:2 l2:2 core:1 pu:2", 4, 16, 32),
        ("pack:2 l3:4 core:16 pu:2", 1, 128, 256),
        ("numa:1 core:3 pu:1", 1, 3, 3),
    ],
)
def test_what_hwloc_itself_writes_of_larger_machines_is_read(machine, numas, cores, threads):
    read = hwloc.parse(lstopo("-i", machine))
    assert len(read.cores) == cores
    assert sorted(thread for core in read.cores for thread in core.threads) == list(range(threads))
    assert len({core.numa for core in read.cores}) == len(read.numas)
    assert len(read.numas) == numas
    caches = [cache for cache in read.caches if cache.kind != "instruction"]
    for level in {cache.level for cache in caches}:
        shared = [core for cache in caches if cache.level == level for core in cache.cores]
        assert sorted(shared) == list(range(cores))


def test_the_own_reader_and_hwloc_agree_on_this_machine():
    text = lstopo("--whole-io", "--disallowed")
    own, other = sysfs.read(), hwloc.parse(text)
    assert [s.number for s in own.sockets] == [s.number for s in other.sockets]
    assert own.numas == other.numas
    assert own.cores == other.cores
    assert own.caches == other.caches
    assert [(d.name, d.kind, d.under, d.address) for d in own.devices] == [
        (d.name, d.kind, d.under, d.address) for d in other.devices
    ]
