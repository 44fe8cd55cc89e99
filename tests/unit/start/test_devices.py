"""Which GPUs a rank sees."""

import pytest

from ddl.job.run_options import RunOptions
from ddl.start import devices


@pytest.mark.parametrize(
    "gpus, options, nccl, sees",
    [
        (0, {}, False, None),
        (2, {}, True, None),
        (1, {}, False, "share"),
        (1, {}, True, "cores"),
        (1, {"oversubscribe": True}, True, "cores"),
        (1, {"cluster": "torchrun"}, False, "cores"),
        (1, {"cluster": "torchrun", "oversubscribe": True}, False, "share"),
        (1, {"cluster": "multi_worker"}, False, "cores"),
        (1, {"cluster": "parameter_server", "parameter_servers": 1}, False, "share"),
        (2, {"cluster": "parameter_server", "parameter_servers": 1}, False, None),
    ],
)
def test_ranks_share_a_gpu_unless_they_need_nccl(monkeypatch, gpus, options, nccl, sees):
    monkeypatch.setattr(devices, "horovod_has_nccl", lambda: nccl)
    monkeypatch.setattr(devices, "for_processors", lambda: False)
    others = 2 if options.get("cluster") == "parameter_server" else 0  # a coordinator and a server
    environment = {"HOROVOD_LOCAL_SIZE": str(2 + others), "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    note = devices.prepare(RunOptions("x.py", gpus_per_node=gpus, **options), environment)
    assert environment.get("CUDA_VISIBLE_DEVICES") == ("-1" if sees == "cores" else None)
    assert (sees or "") in note and bool(note) == bool(sees)
    # The user's own order of cards stays; memory is taken as needed.
    assert environment["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST" and environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"


def test_nccl_is_found_without_loading_horovod(monkeypatch, tmp_path):
    pytest.importorskip("horovod")
    assert not devices.horovod_has_nccl()
    (tmp_path / "horovod/tensorflow").mkdir(parents=True)
    (tmp_path / "horovod/__init__.py").touch()
    (tmp_path / "horovod/tensorflow/mpi_lib.so").write_bytes(b"\x7fELF\0ncclAllReduce\0")
    monkeypatch.setattr(
        devices, "find_spec", lambda name: type("Spec", (), {"submodule_search_locations": [tmp_path / name]})
    )
    assert devices.horovod_has_nccl()
