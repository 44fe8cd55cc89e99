"""Checks of a site, with stand-ins for the programs that they run."""

from collections import namedtuple
from dataclasses import replace

import psutil
import pytest

from ddl.diagnose import site as diagnose
from ddl.diagnose.slurm import COMMANDS
from ddl.job.site import Site
from helpers import program

SIZE = dict(cores_per_node=16, gpus_per_node=4, nodes=2)
CLUSTER = Site(scheduler="slurm", partition="gpu", time_limit="30", python="/env/bin/python", **SIZE)
ACCEPTED = "echo 'srun: Job 7 to start at once' >&2"


def mounts(monkeypatch, kinds):
    """Mount file systems of these kinds, by path."""
    mount = namedtuple("mount", "mountpoint fstype")
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [mount(*each) for each in kinds.items()])


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Put every Slurm command on the path, most of them doing nothing; return what installs others."""
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    mounts(monkeypatch, {"/": "nfs4"})

    def install(**texts):
        for name, text in texts.items():
            program(folder / name, f"#!/bin/sh\n{text}\n")

    install(**dict.fromkeys(COMMANDS, "exit 0"))
    install(srun=ACCEPTED)
    return install


def check(site, name):
    return next(check for check in diagnose.checks(site) if check.name == name)


def test_correct_cluster_passes_all_checks(programs):
    report = diagnose.checks(replace(CLUSTER, origin="/s/site.toml (DDL_SITE)"))
    assert {check.state for check in report} == {"OK"}
    details = {check.name: check.detail for check in report}
    assert details["site"] == "/s/site.toml (DDL_SITE)"
    assert "job of Slurm" in details["runs go"] and "2 nodes with 4 GPUs and 16 cores" in details["runs go"]
    assert "8 workers on 2 nodes" in details["Slurm's answer"] and "Job 7" in details["Slurm's answer"]


def test_slurm_errors_are_passed_on(programs, tmp_path, monkeypatch):
    programs(srun="echo 'error: Invalid account' >&2; exit 1")
    found = check(CLUSTER, "Slurm's answer")
    assert found.state == "missing" and "error: Invalid account" in found.detail
    monkeypatch.setenv("PATH", str(tmp_path))
    found = diagnose.checks(CLUSTER)
    assert [each.name for each in found] == ["site", "runs go", "Slurm commands", "shared folders"]
    assert found[2].state == "missing" and "login node" in found[2].advice


@pytest.fixture
def in_container(tmp_path):
    image = tmp_path / "course.sif"
    image.write_bytes(b"image")
    return replace(CLUSTER, container="singularity", image=str(image), python="")


def test_image_and_container_program_are_checked(programs, in_container, tmp_path, monkeypatch):
    assert check(in_container, "singularity command").state == "optional"
    assert check(replace(in_container, scheduler="local", nodes=1), "singularity command").state == "missing"
    programs(singularity="exit 0")
    assert check(in_container, "image").detail == f"{tmp_path}/course.sif, 0.0 GiB"
    assert check(in_container, "singularity command").detail == f"{tmp_path}/bin/singularity"
    assert "course.sif (nfs4)" in check(in_container, "shared folders").detail
    mounts(monkeypatch, {"/proc": "proc"})  # in a chroot
    assert check(in_container, "shared folders").state == "optional"
    found = check(replace(in_container, image="/nowhere/x.sif"), "image")
    assert found.state == "missing" and "`make sif`" in found.advice
    monkeypatch.setattr(diagnose.os, "access", lambda path, mode: False)  # root reads everything
    assert "chmod" in check(in_container, "image").advice


@pytest.mark.parametrize(
    "noise, state",
    [
        (
            "object 'x.so' from LD_PRELOAD cannot be preloaded (cannot open): ignored. Report errors to help@example.org",
            "OK",
        ),
        ("ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for python", "missing"),
        ("Lmod has detected the following error: The following module(s) are unknown", "missing"),
        ("ERROR: Unable to locate a modulefile for 'python'", "missing"),
    ],
)
def test_only_what_module_says_decides_about_modules(programs, tmp_path, monkeypatch, noise, state):
    programs(bash=f'echo "{noise}" >&2')
    assert check(replace(CLUSTER, modules=("python/3.11",)), "modules").state == state


def test_a_time_limit_above_the_partitions_is_named(programs):
    programs(scontrol="echo 'PartitionName=gpu MaxNodes=UNLIMITED MaxTime=00:20:00 MinNodes=0'")
    assert "00:20:00" in check(CLUSTER, "time limit").advice
    programs(scontrol="echo 'PartitionName=gpu MaxTime=UNLIMITED'")
    assert not [each for each in diagnose.checks(CLUSTER) if each.name == "time limit"]
