"""This machine: cores, memory and GPUs that this process may use, and the container around it."""

import functools
import math
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ddl

CGROUP = Path("/sys/fs/cgroup")  # a container's limits, where there are any
MARKS = {  # of a container that this process may be in: variables, files
    "singularity": (("SINGULARITY_CONTAINER", "APPTAINER_CONTAINER"), ("/.singularity.d",)),
    "podman": ((), ("/run/.containerenv",)),
    "docker": (("DDL_IMAGE",), ("/.dockerenv",)),
}


def usable_cores() -> int:
    """Number of cores that this process may use, by affinity, cgroup and Slurm."""
    cores = len(os.sched_getaffinity(0))
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")  # not every Slurm enforces what it gives
    if given.isdigit():
        cores = min(cores, int(given))
    try:
        quota, period = (CGROUP / "cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        pass  # cgroup v1, or no cgroup
    return cores


def cores_of_host(hosts: int) -> int:
    """Cores of each of several hosts made on this machine: its share, but at least two.

    Ranks may share cores, but with fewer than two on a host there would be no traffic within it to compare with.
    """
    return max(2, usable_cores() // max(1, hosts))


def available_bytes() -> int:
    """Memory still available on this machine, and within the control group's limit."""
    import psutil

    free = psutil.virtual_memory().available
    try:
        left = int((CGROUP / "memory.max").read_text()) - int((CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return free  # no limit ("max"), cgroup v1, or no cgroup
    cache = re.search(r"^inactive_file (\d+)", _text(CGROUP / "memory.stat"), re.MULTILINE)
    return min(free, left + (int(cache[1]) if cache else 0))  # cached files give way


def threads_per_rank() -> int:
    """Number of TensorFlow's compute threads in this process, as recorded."""
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS") or usable_cores())


@functools.cache
def gpu_names() -> tuple[str, ...]:
    """Names of the GPUs that this process may use, as ``nvidia-smi -L`` lists them."""
    if not shutil.which("nvidia-smi"):
        return ()
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return ()  # no driver answers, no GPU
    names = [
        line.split(":", 1)[1].split("(")[0].strip() for line in listed.stdout.splitlines() if line.startswith("GPU ")
    ]
    visible = _visible_devices()
    return tuple(names if visible is None else names[: len(visible)])


def gpu_numbers() -> list[str]:
    """The GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them."""
    count = len(gpu_names())  # asked, and kept, before a rank narrows what it sees
    visible = _visible_devices()
    return [str(number) for number in range(count)] if visible is None else visible


def _visible_devices() -> list[str] | None:
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if devices is None else [name.strip() for name in devices.split(",") if name.strip()]


def container_around() -> str:
    """The kind of container that this process is in; empty outside of any."""
    for kind, (names, files) in MARKS.items():
        if any(map(os.environ.get, names)) or any(Path(file).exists() for file in files):
            return kind
    return ""


def host_name() -> str:
    """This host's name, in a Slurm job the node's; hosts made by `ddl.rank.hosts` have different names."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def hardware() -> dict[str, Any]:
    """Describe this host: name, processor, usable cores, memory in GiB, GPUs."""
    import psutil

    return {
        "host": host_name(),
        "cpu": processor_model() or platform.processor() or platform.machine(),
        "cores": usable_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": list(gpu_names()),
    }


def processor_model(proc: str | Path = "/proc") -> str:
    """The processor's name in /proc/cpuinfo; empty where that has none."""
    found = re.search(r"^model name\s*:\s*(.+)$", _text(Path(proc) / "cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else ""


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def versions() -> dict[str, str | None]:
    """Versions of what results depend on, without importing it."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    names = {
        "tensorflow": ("tensorflow", "tensorflow-cpu"),
        "horovod": ("horovod",),
        "tensorflow_addons": ("tensorflow-addons",),
    }
    for key, distributions in names.items():
        found[key] = next(filter(None, map(_version, distributions)), None)
    if keras := _version("tf-keras"):  # on the next stack, in the place of tensorflow_addons
        found["tf_keras"] = keras
    return found | {"ddl": ddl.__version__}  # on PYTHONPATH alone, as in a container, it is not installed


def _version(distribution: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
