"""The topology of this machine, from all available sources."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

from course.machine import nvml, sysfs
from course.machine.graph import Device, NvLink, Topology
from ddl.records.machine import usable_cores

NOT_IN_SYS = (  # as in some containers
    "GPUs do not appear as PCI devices in /sys here, so their distances are unknown: `nvidia-smi topo -m` may show "
    "them, and its output can be loaded"
)


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
    elif sysfs.has_nvidia_gpus(root):
        notes.append("GPUs are listed as PCI devices only: it is unknown whether NVLinks join them")
    return replace(topology, origin=origin, usable=usable_cores(), notes=(*topology.notes, *dict.fromkeys(notes)))


def _with_gpus(topology, found):
    """Add what NVML reports about GPUs, with nvidia-smi's numbers; GPUs that it omits come last."""
    facts = {gpu.address: gpu.facts for gpu in found}
    others = [device for device in topology.devices if device.kind != "gpu"]
    if not facts.keys() <= {device.address for device in topology.gpus}:
        gpus = [Device(address, "gpu", address=address) for address in facts]
        topology = replace(topology, devices=(*others, *gpus), notes=(*topology.notes, NOT_IN_SYS))
    addresses = dict.fromkeys([*facts, *(gpu.address for gpu in topology.gpus)])
    names = {address: f"GPU{number}" for number, address in enumerate(addresses)}
    gpus = [
        replace(device, name=names[device.address], gb_per_s=None, **facts.get(device.address, {}))
        for device in topology.gpus
    ]
    gpus.sort(key=lambda gpu: int(gpu.name[3:]))
    links, switches = _nvlinks(found, names, {d.address: d.name for d in topology.of("nvswitch")})
    return replace(topology, devices=(*others, *gpus, *switches), nvlinks=links)


def _nvlinks(found, names, switches):
    """Return NVLinks by the names of their ends, and the NVSwitches that are not listed so far."""
    links, added = {}, []
    for gpu in found:
        for (kind, end), count in Counter(gpu.links).items():
            if kind == "nvswitch" and end not in switches:
                switches[end] = f"NVSwitch{len(switches)}"
                added.append(Device(switches[end], "nvswitch", address=end))
            if other := (switches if kind == "nvswitch" else names).get(end):
                a, b = sorted((names[gpu.address], other))
                links[a, b] = NvLink(a, b, count, gpu.nvlink_generation)  # both GPUs of a link report it
    return tuple(links.values()), added
