"""What a site finds on its machine."""

import subprocess

import pytest

from ddl import site


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Put a stand-in for nvidia-smi on the path: no GPU is needed to read what it prints."""
    site.gpu_names.cache_clear()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(text):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    yield install
    site.gpu_names.cache_clear()


LISTED = """cat <<'END'
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d1e)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-7c2f)
END"""


def test_gpus_are_listed(nvidia_smi):
    nvidia_smi(LISTED)
    assert site.gpu_names() == ("NVIDIA A100-SXM4-40GB",) * 2
    assert site.Site.detect().slots == 2


@pytest.mark.parametrize("visible, count", [("0", 1), ("1,0", 2), ("", 0)])
def test_hidden_gpus_do_not_count(nvidia_smi, monkeypatch, visible, count):
    nvidia_smi(LISTED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert len(site.gpu_names()) == count


def test_a_driver_that_fails_or_hangs_offers_no_gpu(nvidia_smi, monkeypatch):
    nvidia_smi("echo 'NVIDIA-SMI has failed' >&2; exit 9")
    assert site.gpu_names() == ()
    site.gpu_names.cache_clear()

    def hang(*_, **options):
        raise subprocess.TimeoutExpired("nvidia-smi", options["timeout"])

    monkeypatch.setattr(site.subprocess, "run", hang)
    assert site.gpu_names() == ()


def test_without_gpus_a_core_is_a_slot(monkeypatch):
    assert site.Site(cores_per_node=4).slots == 4


def test_a_site_needs_a_core():
    with pytest.raises(site.SiteError, match="at least one core"):
        site.Site(cores_per_node=0)
