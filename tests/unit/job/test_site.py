"""Discovery of a site's resources."""

import subprocess
from unittest.mock import Mock

import pytest

from ddl.job import site
from ddl.job.job import Job
from ddl.records import machine
from helpers import program


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Put a stand-in for nvidia-smi on the path: no GPU is needed to read what it prints."""

    def forget():
        machine._gpus.cache_clear()
        machine._nvidia_smi.cache_clear()

    forget()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(text):
        program(tmp_path / "nvidia-smi", f"#!/bin/sh\n{text}\n")
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        forget()

    yield install
    forget()


LISTED = """cat <<'END'
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d1e)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-7c2f)
END"""


@pytest.mark.parametrize(
    "visible, count",
    [(None, 2), ("0", 1), ("1, 0", 2), ("GPU-7c", 1), ("", 0), ("-1", 0), ("NoDevFiles", 0), ("7", 0), ("0,-1,1", 1)],
)
def test_gpu_count_stops_at_invalid_entry(nvidia_smi, monkeypatch, visible, count):
    nvidia_smi(LISTED)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert site.gpu_names() == ("NVIDIA A100-SXM4-40GB",) * count
    assert site.Site.detect().gpus_per_node == len(machine.gpu_numbers()) == count


def test_named_mig_instance_is_counted(nvidia_smi, monkeypatch):
    nvidia_smi(LISTED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-b,MIG-c")
    assert len(site.gpu_names()) == 2 and machine.gpu_numbers() == ["MIG-b", "MIG-c"]


def test_failing_or_hanging_driver_offers_no_gpu(nvidia_smi, monkeypatch):
    nvidia_smi("echo 'NVIDIA-SMI has failed' >&2; exit 9")
    assert site.gpu_names() == () and machine.gpu_problem() == "NVIDIA-SMI has failed"
    nvidia_smi("")
    monkeypatch.setattr(machine.subprocess, "run", Mock(side_effect=subprocess.TimeoutExpired("nvidia-smi", 1)))
    assert site.gpu_names() == () and "20 s" in machine.gpu_problem()
    assert "20 s" in site.Site.detect().origin


def test_noise_around_the_list_of_gpus_changes_nothing(nvidia_smi):
    nvidia_smi(f"echo 'object from LD_PRELOAD cannot be preloaded: error' >&2\necho 'WARNING: infoROM'\n{LISTED}")
    assert len(site.gpu_names()) == 2 and machine.gpu_problem() == ""


def test_two_workers_share_a_machines_only_gpu():
    one = site.Site(cores_per_node=4, gpus_per_node=1)
    assert [one.nodes_for(job(workers)) for workers in (1, 2, 4)] == [1, 1, 1]
    two, nodes = (site.Site(scheduler="slurm", cores_per_node=4, gpus_per_node=3 - n, nodes=n) for n in (1, 2))
    for place, workers in ((one, 5), (two, 4), (nodes, 4)):
        with pytest.raises(site.SiteError, match="oversubscribe"):
            place.nodes_for(job(workers))


CLUSTER = site.Site(scheduler="slurm", cores_per_node=8, gpus_per_node=4, nodes=3)


def job(workers, **fields):
    return Job("/c/x.py", workers=workers, cwd="/c", **fields)


@pytest.mark.parametrize(
    "workers, asked, nodes",
    [(1, None, 1), (4, None, 1), (6, None, 2), (8, None, 2), (9, None, 3), (12, None, 3), (4, 2, 2), (3, 3, 3)],
)
def test_a_job_takes_the_fewest_nodes_that_hold_it_evenly(workers, asked, nodes):
    assert CLUSTER.nodes_for(job(workers, nodes=asked)) == nodes


@pytest.mark.parametrize(
    "workers, options, works",
    [
        (5, {}, "workers=4 or workers=6"),
        (5, {"nodes": 2}, "workers=4 or workers=6"),
        (4, {"nodes": 4}, "at most 3"),
        (16, {"nodes": 2, "oversubscribe": True}, "workers=8"),
    ],
)
def test_refusal_suggests_worker_counts_that_fit(workers, options, works):
    with pytest.raises(site.SiteError, match=works):
        CLUSTER.nodes_for(job(workers, **options))


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No site file, no job, no container, no GPU: a machine with two cores."""
    for name in (*ONE_NODE, "SLURM_JOB_ID", "SLURM_GPUS_ON_NODE", "DDL_SITE", "DDL_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    for folder in ("work", "course", "settings/ddl"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setattr(site.sitefile, "course_root", lambda: tmp_path / "course")
    marks = {"singularity": (("SINGULARITY_CONTAINER",), ()), "docker": (("DDL_IMAGE",), (tmp_path / "mark",))}
    monkeypatch.setattr(machine, "CONTAINERS", marks)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(site, "gpu_names", tuple)
    return tmp_path


def inside_slurm(monkeypatch, **variables):
    for name, value in {"SLURM_JOB_ID": "123", **variables}.items():
        monkeypatch.setenv(name, value)


ONE_NODE = dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"), "1")
ONE_NODE |= {"SLURMD_NODENAME": "node07"}
TWO_NODES = ONE_NODE | {"SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "8", "SLURM_JOB_CPUS_PER_NODE": "8,6"}
TWO_NODES |= {"SLURM_GPUS_ON_NODE": "2"}
BESIDE = {"SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_CPUS_PER_NODE": "16"}  # ``salloc`` on a login node


@pytest.mark.parametrize(
    "variables, where, scheduler, nodes, cores, gpus",
    [
        (ONE_NODE, "on node07", "local", 1, 1, 0),
        (TWO_NODES, "on 2 nodes", "slurm", 2, 6, 2),  # the least that any of them has
        (BESIDE, "on 1 node", "slurm", 1, 16, 0),
    ],
)
def test_inside_a_job_of_slurm(nowhere, monkeypatch, variables, where, scheduler, nodes, cores, gpus):
    inside_slurm(monkeypatch, **variables)
    monkeypatch.setattr(site, "usable_cores", lambda: int(variables.get("SLURM_CPUS_ON_NODE", 2)))
    found = site.Site.here()
    assert found.origin == f"detected, inside Slurm job 123 {where}"
    assert (found.scheduler, found.allocation, found.nodes) == (scheduler, "123", nodes)
    assert (found.cores_per_node, found.gpus_per_node) == (cores, gpus)


FILE = """\
scheduler = "slurm"
controller = "mpi"
cores_per_node = 32
gpus_per_node = 4
nodes = 4
"""


def test_first_site_file_is_used(nowhere, monkeypatch):
    places = [
        ("given.toml", "as asked for"),
        ("named.toml", "DDL_SITE"),
        ("work/site.toml", "in the working folder"),
        ("course/site.toml", "in the course's folder"),
        ("settings/ddl/site.toml", "in your settings"),
    ]
    for path, why in reversed(places):
        (nowhere / path).write_text(FILE)
        if why == "DDL_SITE":
            monkeypatch.setenv("DDL_SITE", str(nowhere / path))
        found = site.Site.here(nowhere / path if why == "as asked for" else None)
        assert found.origin == f"{nowhere / path} ({why})"
        assert (found.scheduler, found.slots, found.nodes) == ("slurm", 4, 4)


def test_a_file_inside_a_job_has_the_jobs_nodes(nowhere, monkeypatch):
    file = nowhere / "work/site.toml"
    file.write_text(FILE)
    inside_slurm(monkeypatch, **TWO_NODES)
    found = site.Site.here()
    assert (found.scheduler, found.controller) == ("slurm", "mpi")
    assert (found.nodes, found.cores_per_node, found.gpus_per_node) == (2, 6, 2)
    inside_slurm(monkeypatch, **ONE_NODE)
    found = site.Site.here()
    assert found.origin.endswith("(in the working folder), inside Slurm job 123 on node07")
    assert (found.scheduler, found.controller, found.nodes) == ("local", "gloo", 1)
    file.write_text("gpus_per_node = 0\n")  # a local one stays local
    found = site.Site.here()
    assert (found.scheduler, found.allocation) == ("local", "123")
