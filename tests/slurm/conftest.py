"""One real Slurm for all tests here; see cluster.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import cluster


@pytest.fixture(scope="session")
def slurm_conf(tmp_path_factory):
    if wanting := cluster.missing():
        pytest.skip(f"Slurm tests need {wanting}")
    with cluster.cluster(tmp_path_factory.mktemp("slurm")) as path:
        yield path


@pytest.fixture
def on_slurm(slurm_conf, tmp_path, monkeypatch):
    """Make this process a login node's: Slurm's programs find the cluster, DDL_SITE names it."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))
    site = tmp_path / "site.toml"

    def write(**changes):
        keys = {
            "scheduler": "slurm",
            "partition": "gpu",
            "nodes": 2,
            "gpus_per_node": 2,
            "cores_per_node": 4,
            "network_interfaces": ["lo"],
            **changes,
        }
        site.write_text("".join(f"{key} = {value!r}\n" for key, value in keys.items()))
        return site

    monkeypatch.setenv("DDL_SITE", str(write()))
    yield write
    cluster.end_jobs({"SLURM_CONF": str(slurm_conf), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
