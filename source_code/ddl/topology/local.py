"""The topology of this machine, from every source on it."""

import os
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

from ddl.records.machine import usable_cores
from ddl.topology import hwloc, nvidia, nvml, sysfs
from ddl.topology.error import TopologyError
from ddl.topology.graph import Device, NvLink, Topology


def here(root: str | Path = "/") -> Topology:
    """Find out the topology of this machine, or of the one whose /sys and /proc are under `root`.

    Processors, memory and PCIe come from hwloc's ``lstopo`` if it is installed (and `root` is the system's), otherwise
    from /sys and /proc; GPUs, NVLinks and NVSwitches from NVML, or from ``nvidia-smi topo -m`` where NVML doesn't know.
    The topology's `origin` names the sources, its `notes` what is missing.
    """
    topology = sysfs.read(root, name=os.uname().nodename)
    asked, notes = ["/sys and /proc"], []
    text = hwloc.ask() if Path(root) == Path("/") else None
    if text:
        try:
            topology = _with_links(hwloc.parse(text, topology.name), topology)
            asked.insert(0, "hwloc")
        except TopologyError as error:
            notes.append(f"hwloc's answer was not read: {error}")
    report = nvml.read()
    if report.gpus:
        asked.append("NVML")
        topology = _with_gpus(topology, report, asked)
    if topology.gpus and not report.gpus:
        notes.append("GPUs are listed as PCI devices only: whether NVLinks join them is not known")
    threads = sum(len(core.threads) for core in topology.cores)
    return replace(
        topology,
        origin=f"measured here by {', '.join(asked)}",
        usable=min(threads, usable_cores()),
        notes=(*topology.notes, *notes, *dict.fromkeys(report.notes)),
    )


def _with_links(topology, system):
    """hwloc's topology with PCIe generations and widths, and network rates, from /sys.

    hwloc reports a link's current rate, which an idle GPU lowers.
    """
    known = {device.address: device for device in system.devices if device.address}
    return replace(
        topology,
        notes=(*system.notes, *topology.notes),
        devices=tuple(
            replace(
                device,
                generation=listed.generation,
                width=listed.width,
                gb_per_s=listed.gb_per_s or device.gb_per_s,
                gbit_per_s=listed.gbit_per_s,
                network=listed.network or device.network,
            )
            if (listed := known.get(device.address))
            else device
            for device in topology.devices
        ),
    )


def _with_gpus(topology, report, asked):
    addresses = {device.address: device.name for device in topology.gpus}
    if any(gpu.address not in addresses for gpu in report.gpus):
        topology = _from_matrix(topology, report, asked)
        addresses = {gpu.address: f"GPU{at}" for at, gpu in enumerate(report.gpus)}
    facts = {addresses[gpu.address]: gpu for gpu in report.gpus}
    # nvidia-smi's numbering, which follows the addresses unless a variable says otherwise.
    names = {addresses[gpu.address]: f"GPU{at}" for at, gpu in enumerate(report.gpus)}
    others = [device for device in topology.gpus if device.name not in facts]
    names |= {device.name: f"GPU{at}" for at, device in enumerate(others, len(names))}
    devices = [_filled(device, facts.get(device.name), names) for device in topology.devices]
    devices.sort(key=lambda device: int(device.name[3:]) if device.kind == "gpu" else -1)
    links, switches = _nvlinks(report, {device.address: device.name for device in devices if device.kind == "nvswitch"})
    topology = replace(topology, devices=(*devices, *switches), nvlinks=links)
    return replace(topology, notes=(*topology.notes, *_disagreements(topology, report)))


def _filled(device, gpu, names):
    device = replace(device, name=names.get(device.name, device.name))
    if not gpu:
        return device
    return replace(
        device,
        model=gpu.model or device.model,
        address=gpu.address,
        memory_bytes=gpu.memory_bytes,
        generation=gpu.generation or device.generation,
        width=gpu.width or device.width,
        gb_per_s=None if gpu.generation and gpu.width else device.gb_per_s,
    )


def _from_matrix(topology, report, asked):
    """Give GPUs that are not among the PCI devices the simplest tree that NVML's distances allow."""
    names = tuple(f"GPU{at}" for at in range(len(report.gpus)))
    numas = {numa.number for numa in topology.numas}
    text = None
    if len(report.distances) < len(names) * (len(names) - 1):
        text = _matrix_text()
    if text:
        asked.append("nvidia-smi topo -m")
        made = nvidia.parse(text)
    else:
        kinds = {
            (a, b): "X" if a == b else report.distances.get((i, j), "SYS")
            for i, a in enumerate(names)
            for j, b in enumerate(names)
        }
        made = nvidia.tree(nvidia.Matrix(names, kinds, {}, {}), "NVML")
    others = tuple(device for device in topology.devices if device.kind != "gpu")
    taken = {device.name for device in others}
    kept = [
        replace(device, numa=device.numa if text and device.numa in numas else None)
        for device in made.devices
        if device.kind in ("root", "switch", "gpu") and device.name not in taken
    ]
    note = "GPUs are no PCI devices in /sys here: the tree that they hang in is made from their distances"
    if not text:
        note += "; which NUMA node each is near to is not known"
    reported = {
        pair: kind
        for pair, kind in made.reported.items()
        if text or tuple(int(name[3:]) for name in pair) in report.distances
    }
    return replace(topology, devices=(*others, *kept), nvlinks=(), reported=reported, notes=(*topology.notes, note))


def _matrix_text():
    if not shutil.which("nvidia-smi"):
        return None
    try:
        done = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if nvidia.looks_like(done.stdout) else None


def _nvlinks(report, switches):
    """NVLinks by the names of their ends, and NVSwitches not listed so far."""
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


def _disagreements(topology, report):
    for (a, b), distance in report.distances.items():
        above, above_other = ({device.name for device in topology.above(f"GPU{number}")} for number in (a, b))
        if a < b and not above & above_other and distance in ("PIX", "PXB", "PHB"):
            yield (
                f"NVML says {distance} for GPU{a} and GPU{b}, and the PCIe tree that the system "
                "shows joins them nowhere below the processor"
            )
