"""Set-up on a machine with GPUs and no CUDA toolkit: Horovod is compiled with NCCL by NVIDIA's packages."""

import os
import subprocess

import pytest

from ddl.records.paths import cache_dir
from helpers import ROOT, SETTING_UP, program

SMI = """#!/bin/sh
case $1 in -L) echo "GPU 0: one" && echo "GPU 1: two" ;; *) echo "580.159.04, 8.0" && echo "580.159.04, 9.0" ;; esac
"""
KERNELS = """
import horovod.tensorflow as hvd
from tensorflow.python.framework.kernels import get_registered_kernels_for_op as registered

assert hvd.nccl_built() and hvd.gloo_built()
for op in ("BroadcastInplaceResource", "Allreduce", "GroupedAllreduce", "Allgather", "Alltoall", "Reducescatter"):
    assert "GPU" in {kernel.device_type for kernel in registered(f"Horovod{op}").kernel}, op
"""


@pytest.mark.nightly(*SETTING_UP)
@pytest.mark.timeout(1500)
def test_horovod_has_kernels_for_gpus_and_finds_nccl(tmp_path):
    """It needs no GPU: nvidia-smi is a stand-in. NCCL is found without LD_LIBRARY_PATH."""
    cache, venv = tmp_path / "cache", tmp_path / "venv"
    program(tmp_path / "bin/nvidia-smi", SMI)
    (cache / "ddl").mkdir(parents=True)
    for tool in cache_dir().glob("uv-*"):
        (cache / "ddl" / tool.name).symlink_to(tool)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DDL_", "MAKE", "LD_LIBRARY", "CUDA"))}
    env |= {"PATH": f"{tmp_path}/bin:{env['PATH']}", "XDG_CACHE_HOME": str(cache), "TF_CPP_MIN_LOG_LEVEL": "3"}

    def run(*command):
        done = subprocess.run(command, cwd=ROOT, env=env, text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr[-5000:]
        return done.stdout

    run("sh", "tools/setup.sh", venv, "environment")
    run(venv / "bin/python", "-c", KERNELS)
    env["PYTHONPATH"] = str(ROOT / "source_code")
    run(venv / "bin/python", "-c", "from ddl.start.devices import horovod_has_nccl; assert horovod_has_nccl()")
    (packages,) = venv.glob("lib/python3.*/site-packages")
    (library,) = packages.glob("horovod/tensorflow/mpi_lib*.so")
    (nccl,) = [line.split()[2] for line in run("ldd", library).splitlines() if "libnccl" in line]
    assert os.path.samefile(nccl, packages / "nvidia/nccl/lib/libnccl.so.2")
