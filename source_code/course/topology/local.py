"""The topology of this machine, from all available sources."""

import os
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

from course.topology import nvidia, nvml, sysfs
from course.topology.error import TopologyError
from course.topology.graph import Device, NvLink, Topology
from ddl.records.machine import usable_cores


def here(root: str | Path = "/") -> Topology:
    """Return the topology of this machine, or of the one whose /sys and /proc are under `root`.

    Processors, memory and PCIe come from /sys and /proc; GPUs, NVLinks and NVSwitches from NVML. If /sys does not show
    the GPUs, as in some containers, their connections come from ``nvidia-smi topo -m``. The topology's `origin` lists
    the sources, its `notes` the gaps.
    """
    topology = sysfs.read(root, name=os.uname().nodename)
    report = nvml.read()
    sources, notes = ["/sys and /proc"], list(report.notes)
    if report.gpus:
        sources.append("NVML")
        topology = _with_gpus(topology, report, sources)
    elif topology.gpus:
        notes.append("GPUs are listed as PCI devices only: it is unknown whether NVLinks join them")
    threads = sum(len(core.threads) for core in topology.cores)
    return replace(
        topology,
        origin=f"measured here by {', '.join(sources)}",
        usable=min(threads, usable_cores()),
        notes=(*topology.notes, *dict.fromkeys(notes)),
    )


def _with_gpus(topology, report, sources):
    addresses = {device.address: device.name for device in topology.gpus}
    if any(gpu.address not in addresses for gpu in report.gpus):
        topology = _in_a_tree(topology, len(report.gpus), sources)
        addresses = {gpu.address: f"GPU{at}" for at, gpu in enumerate(report.gpus)}
    gpus = {addresses[gpu.address]: gpu for gpu in report.gpus}
    # nvidia-smi's numbering, which follows the addresses unless a variable says otherwise; then GPUs that it omits.
    names = [*gpus, *(device.name for device in topology.gpus if device.name not in gpus)]
    names = {name: f"GPU{number}" for number, name in enumerate(names)}
    devices = [
        replace(device, name=names[device.name], address=gpu.address, gb_per_s=None, **gpu.facts)
        if (gpu := gpus.get(device.name))
        else replace(device, name=names.get(device.name, device.name))
        for device in topology.devices
    ]
    devices.sort(key=lambda device: int(device.name[3:]) if device.kind == "gpu" else -1)
    links, switches = _nvlinks(report, {device.address: device.name for device in devices if device.kind == "nvswitch"})
    return replace(topology, devices=(*devices, *switches), nvlinks=links)


def _in_a_tree(topology, count, sources):
    """Add GPUs that are not among the PCI devices, in the simplest tree that fits ``nvidia-smi topo -m``."""
    others = tuple(device for device in topology.devices if device.kind != "gpu")
    matrix = _matrix()
    note = "GPUs do not appear as PCI devices in /sys here: "
    if not matrix:
        gpus = tuple(Device(f"GPU{number}", "gpu") for number in range(count))
        note += "their positions and distances are unknown"
        return replace(topology, devices=(*others, *gpus), notes=(*topology.notes, note))
    sources.append("nvidia-smi topo -m")
    numas = {numa.number for numa in topology.numas}
    names = {device.name for device in others}
    tree = [
        replace(device, numa=device.numa if device.numa in numas else None)
        for device in matrix.devices
        if device.kind in ("root", "switch", "gpu") and device.name not in names
    ]
    return replace(
        topology,
        devices=(*others, *tree),
        reported=matrix.reported,
        notes=(*topology.notes, note + "their tree is derived from their distances"),
    )


def _matrix():
    """Return the topology of nvidia-smi's matrix; None if it prints none."""
    try:
        printed = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=60).stdout
        return nvidia.parse(printed)
    except (OSError, subprocess.TimeoutExpired, TopologyError):
        return None


def _nvlinks(report, switches):
    """Return NVLinks by the names of their ends, and NVSwitches not listed so far."""
    names = {gpu.address: f"GPU{at}" for at, gpu in enumerate(report.gpus)}
    counts, added = Counter(), {}
    for at, gpu in enumerate(report.gpus):
        for kind, end in gpu.links:
            if kind == "gpu" and end in names:
                counts[tuple(sorted((f"GPU{at}", names[end]))), gpu.nvlink_generation] += 1
                continue
            if end not in switches and end not in added:
                name = f"NVSwitch{len(switches) + len(added)}"
                added[end] = Device(name, "nvswitch", address=end)
            name = switches.get(end) or added[end].name
            counts[(f"GPU{at}", name), gpu.nvlink_generation] += 1
    # Both GPUs of a link report it.
    links = tuple(
        NvLink(a, b, count // 2 if b.startswith("GPU") else count, generation)
        for ((a, b), generation), count in counts.items()
        if count > 1 or not b.startswith("GPU")
    )
    return links, tuple(added.values())
