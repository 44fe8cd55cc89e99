"""The topology of this machine, from all available sources."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

from course.topology import nvml, sysfs
from course.topology.graph import Device, NvLink, Topology
from ddl.records.machine import usable_cores


def here(root: str | Path = "/") -> Topology:
    """Return the topology of this machine, or of the one whose /sys and /proc are under `root`.

    Processors, memory and PCIe come from /sys and /proc; GPUs, NVLinks and NVSwitches from NVML. The topology's
    `notes` list the gaps.
    """
    topology = sysfs.read(root, name=os.uname().nodename)
    gpus, notes = nvml.read()
    origin = "measured here by /sys and /proc"
    if gpus:
        origin += ", NVML"
        topology = _with_gpus(topology, gpus)
    elif topology.gpus:
        notes.append("GPUs are listed as PCI devices only: it is unknown whether NVLinks join them")
    threads = sum(len(core.threads) for core in topology.cores)
    return replace(
        topology, origin=origin, usable=min(threads, usable_cores()), notes=(*topology.notes, *dict.fromkeys(notes))
    )


def _with_gpus(topology, found):
    addresses = {device.address: device.name for device in topology.gpus}
    if any(gpu.address not in addresses for gpu in found):
        topology = _unplaced(topology, len(found))
        addresses = {gpu.address: f"GPU{at}" for at, gpu in enumerate(found)}
    gpus = {addresses[gpu.address]: gpu for gpu in found}
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
    links, switches = _nvlinks(found, {device.address: device.name for device in devices if device.kind == "nvswitch"})
    return replace(topology, devices=(*devices, *switches), nvlinks=links)


def _unplaced(topology, count):
    """Add GPUs that are not among the PCI devices, as in some containers."""
    others = tuple(device for device in topology.devices if device.kind != "gpu")
    gpus = tuple(Device(f"GPU{number}", "gpu") for number in range(count))
    note = (
        "GPUs do not appear as PCI devices in /sys here, so their distances are unknown: `nvidia-smi topo -m` may tell "
        "them, and its output can be loaded"
    )
    return replace(topology, devices=(*others, *gpus), notes=(*topology.notes, note))


def _nvlinks(found, switches):
    """Return NVLinks by the names of their ends, and NVSwitches not listed so far."""
    names = {gpu.address: f"GPU{at}" for at, gpu in enumerate(found)}
    counts, added = Counter(), {}
    for at, gpu in enumerate(found):
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
