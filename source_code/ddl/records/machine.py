"""The cores, memory, GPUs and software that this process may use, and the container it is in."""

import functools
import itertools
import math
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ddl

CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
CONTAINERS = {  # how to recognize each kind: variables, files
    "singularity": (("SINGULARITY_CONTAINER", "APPTAINER_CONTAINER"), ("/.singularity.d",)),
    "podman": ((), ("/run/.containerenv",)),
    "docker": (("DDL_IMAGE",), ("/.dockerenv",)),
}


def usable_cores() -> int:
    """Return how many cores this process may use: the least of its affinity, control groups and Slurm allocation."""
    limits: list[float] = [len(os.sched_getaffinity(0))]
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")  # Slurm may grant fewer cores without enforcing it
    if given.isdigit():
        limits.append(int(given))
    return max(1, math.ceil(min(limits + [_quota(group) for group in _control_groups()])))


def _control_groups() -> Iterator[Path]:
    """Yield the folders of this process's control group (version 2: "0::/path") and of all groups above it.

    A container may see only its own part of the tree, so some of the folders may not exist.
    """
    if found := re.search("^0::/(.*)", _text(OWN_CGROUP), re.MULTILINE):
        group = CGROUP / found[1]
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(CGROUP))


def _quota(group: Path) -> float:
    """Return how many cores a control group may keep busy."""
    limit, _, period = _text(group / "cpu.max").partition(" ")
    return int(limit) / int(period) if limit.isdigit() else math.inf


def cores_of_host(hosts: int) -> int:
    """Return the cores of each of several hosts simulated on this machine: an equal share, but at least two.

    Ranks may share cores. With fewer than two ranks per host there would be no traffic within a host to measure.
    """
    return max(2, usable_cores() // max(1, hosts))


def available_bytes() -> int:
    """Return the memory that is still available on this machine and within the limits of the control groups."""
    import psutil

    return min([psutil.virtual_memory().available, *map(_left_bytes, _control_groups())])


def _left_bytes(group: Path) -> float:
    """Return how much memory a control group may still use; the kernel drops cached files to make room."""
    limit = _text(group / "memory.max").strip()
    cached = re.search(r"^inactive_file (\d+)", _text(group / "memory.stat"), re.MULTILINE)
    used = int(_text(group / "memory.current") or 0) - int(cached[1] if cached else 0)
    return int(limit) - used if limit.isdigit() else math.inf


def threads_per_rank() -> int:
    """Return the number of TensorFlow's compute threads in this process."""
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS") or usable_cores())


def gpu_names() -> tuple[str, ...]:
    """Return the names of the GPUs that this process may use."""
    return tuple(name for _, name in _gpus(os.environ.get("CUDA_VISIBLE_DEVICES")) if name)


def gpu_numbers() -> list[str]:
    """Return the GPUs that this process may use, as entries of ``CUDA_VISIBLE_DEVICES``."""
    return [entry for entry, _ in _gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))]


def gpu_problem() -> str:
    """Return what nvidia-smi says is wrong with this machine's GPUs or driver; empty if nothing is, or without it.

    If ``CUDA_VISIBLE_DEVICES`` hides all GPUs, nothing is wrong with them.
    """
    return "" if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1") else _nvidia_smi()[1]


def gpu_capabilities() -> tuple[tuple[int, int], ...]:
    """Return the compute capability of each GPU of this machine, as far as ``nvidia-smi`` tells."""
    output, _ = _nvidia_smi("--query-gpu=compute_cap", "--format=csv,noheader")
    return tuple((int(major), int(minor)) for major, minor in re.findall(r"^(\d+)\.(\d)$", output, re.MULTILINE))


@functools.cache
def _nvidia_smi(*arguments: str) -> tuple[str, str]:
    """Return the standard output of ``nvidia-smi``, by default its list of GPUs, and a sentence if it failed.

    Standard error is left alone, because any program may complain there.
    """
    if not shutil.which("nvidia-smi"):
        return "", ""
    try:
        done = subprocess.run(["nvidia-smi", *(arguments or ("-L",))], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return "", "no answer within 20 s"
    except OSError as error:
        return "", f"cannot be run: {error.strerror}"
    said = [line.strip() for line in (done.stdout or done.stderr).splitlines() if line.strip()]
    sentence = next((line for line in said if not line.startswith("GPU ")), "")
    return done.stdout, (sentence or f"ended with status {done.returncode}") if done.returncode else ""


@functools.cache
def _gpus(visible: str | None) -> tuple[tuple[str, str], ...]:
    """Return the entries of ``CUDA_VISIBLE_DEVICES`` that CUDA follows, or all GPUs, with their names.

    CUDA ignores an invalid entry and everything after it: "-1" hides all GPUs. Names are empty where ``nvidia-smi`` is
    missing, and nothing can be checked.
    """
    if not shutil.which("nvidia-smi"):
        entries = itertools.takewhile(bool, map(str.strip, (visible or "").split(",")))
        return tuple((entry, "") for entry in entries)
    listed, _ = _nvidia_smi()
    gpus = re.findall(r"^GPU (\d+): (.+) \(UUID: (.+)\)", listed, re.MULTILINE)
    if visible is None:
        return tuple((index, name) for index, name, _ in gpus)
    found: list[tuple[str, str]] = []
    for entry in map(str.strip, visible.split(",")):
        by_uuid = entry.startswith("GPU-")
        names = [name for index, name, uuid in gpus if entry == index or (by_uuid and uuid.startswith(entry))]
        if entry.startswith("MIG-"):
            names = ["MIG instance of a GPU"]
        if not names:
            break
        found.append((entry, names[0]))
    return tuple(found)


def container_around() -> str:
    """Return the kind of container that this process is in; empty outside containers."""
    for kind, (names, files) in CONTAINERS.items():
        if any(map(os.environ.get, names)) or any(Path(file).exists() for file in files):
            return kind
    return ""


def host_name() -> str:
    """Return this host's name: in a Slurm job, the node's. Hosts of `ddl.start.netns_hosts` have their own."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def hardware() -> dict[str, Any]:
    """Return this host's name, processor, usable cores, memory in GiB, and GPUs."""
    import psutil

    return {
        "host": host_name(),
        "cpu": processor_model() or platform.processor() or platform.machine(),
        "cores": usable_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": list(gpu_names()),
    }


def processor_model(proc: str | Path = "/proc") -> str:
    """Return the processor's name from /proc/cpuinfo; empty if there is none."""
    found = re.search(r"^model name\s*:\s*(.+)$", _text(Path(proc) / "cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else ""


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def versions() -> dict[str, str | None]:
    """Return the versions of the packages that results depend on, without importing them."""
    found = {
        "python": platform.python_version(),
        "tensorflow": version_of("tensorflow") or version_of("tensorflow-cpu"),
        "horovod": version_of("horovod"),
        "tensorflow_addons": version_of("tensorflow-addons"),
    }
    if keras := version_of("tf-keras"):  # the next stack has it instead of tensorflow_addons
        found["tf_keras"] = keras
    return found | {"ddl": ddl.__version__}  # in a container, ddl is on PYTHONPATH without being installed


def version_of(distribution: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
