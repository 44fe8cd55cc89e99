"""What a rank of PyTorch is told: the variables of torchrun."""

import pytest

from ddl.rank import torchrun
from ddl.rank.cluster import ClusterError
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import write_json

HOROVODS = {
    "HOROVOD_RANK": "3",
    "HOROVOD_SIZE": "4",
    "HOROVOD_LOCAL_RANK": "1",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_CROSS_RANK": "1",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    return RunFolder(tmp_path)


def test_a_rank_is_told_its_place_and_where_all_meet(folder, monkeypatch):
    monkeypatch.setattr(torchrun, "interface_of", {"10.0.0.2": "ib0"}.__getitem__)
    write_json(folder.rank(0), {"rank": 0, "address": "10.0.0.1:29400", "attempt": "0-0-0"})
    assert torchrun.variables(folder, {**HOROVODS, "DDL_ADDRESS": "10.0.0.2"}) == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29400",
        "GLOO_SOCKET_IFNAME": "ib0",
        "NCCL_SOCKET_IFNAME": "ib0",
    }


def test_a_rank_0_that_does_not_start_is_named(folder, monkeypatch):
    monkeypatch.setenv("DDL_CLUSTER_TIMEOUT_S", "0.1")
    with pytest.raises(ClusterError, match=r"^rank 0 did not start within 0.1 s"):
        torchrun.variables(folder, HOROVODS)
