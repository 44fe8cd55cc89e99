"""The machine that this process is on, from all that it says of itself."""

import os
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

from ddl.records.machine import usable_cores
from ddl.topology import hwloc, nvidia, nvml, sysfs
from ddl.topology.error import TopologyError
from ddl.topology.graph import Device, NvLink

__all__ = ["here"]


def here(root: str | Path = "/"):
    """Find out the topology of this machine.

    Processors, memory and PCIe come from hwloc's ``lstopo`` where it is installed, and from /sys and /proc otherwise;
    GPUs, NVLinks and NVSwitches from NVML, and from ``nvidia-smi topo -m`` where NVML doesn't say.

    Parameters
    ----------
    root
        The folder in which /sys and /proc are; of one that is not the system's own, hwloc is not asked.

    Returns
    -------
    Topology
        ``origin`` says who was asked, `notes` what nobody could say, `usable` how many processor threads this process
        may use.
    """
    own = sysfs.read(root, name=os.uname().nodename)
    asked, notes = ["/sys and /proc"], []
    text = hwloc.ask() if Path(root) == Path("/") else None
    if text:
        try:
            own = _with_links(hwloc.parse(text, own.name), own)
            asked.insert(0, "hwloc")
        except TopologyError as error:
            notes.append(f"hwloc's answer was not read: {error}")
    report = nvml.read()
    if report.gpus:
        asked.append("NVML")
        own = _with_gpus(own, report, asked)
    if own.gpus and not report.gpus:
        notes.append("GPUs are listed as PCI devices only: whether NVLinks join them is not known")
    threads = sum(len(core.threads) for core in own.cores)
    return replace(
        own,
        origin=f"measured here by {', '.join(asked)}",
        usable=min(threads, usable_cores()),
        notes=(*own.notes, *notes, *dict.fromkeys(report.notes)),
    )


def _with_links(topology, own):
    """hwloc's topology with the links' generation and width, and cables' rate, from /sys.

    hwloc tells a link's rate of this moment, which an idle GPU lowers.
    """
    known = {device.address: device for device in own.devices if device.address}
    return replace(
        topology,
        notes=(*own.notes, *topology.notes),
        devices=tuple(
            replace(
                device,
                generation=said.generation,
                width=said.width,
                gb_per_s=said.gb_per_s or device.gb_per_s,
                gbit_per_s=said.gbit_per_s,
                network=said.network or device.network,
            )
            if (said := known.get(device.address))
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
    # nvidia-smi's numbers count; they follow the addresses unless a variable says otherwise.
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
    """Give GPUs that are no PCI devices here the simplest tree that NVML's distances allow."""
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
    own = tuple(device for device in topology.devices if device.kind != "gpu")
    taken = {device.name for device in own}
    kept = [
        replace(device, numa=device.numa if text and device.numa in numas else None)
        for device in made.devices
        if device.kind in ("root", "switch", "gpu") and device.name not in taken
    ]
    note = "GPUs are no PCI devices in /sys here: the tree that they hang in is made from their distances"
    if not text:
        note += "; which NUMA node each is near to is not known"
    told = {
        pair: kind
        for pair, kind in made.told.items()
        if text or tuple(int(name[3:]) for name in pair) in report.distances
    }
    return replace(topology, devices=(*own, *kept), nvlinks=(), told=told, notes=(*topology.notes, note))


def _matrix_text():
    if not shutil.which("nvidia-smi"):
        return None
    try:
        done = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if nvidia.looks_like(done.stdout) else None


def _nvlinks(report, switches):
    """NVLinks by the names of their ends, and the NVSwitches that no one listed."""
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
    # Both GPUs of a link tell of it.
    links = tuple(
        NvLink(a, b, count // 2 if b.startswith("GPU") else count, generation)
        for ((a, b), generation), count in counts.items()
        if count > 1 or not b.startswith("GPU")
    )
    return links, tuple(added.values())


def _disagreements(topology, report):
    for (a, b), distance in report.distances.items():
        ways = [[device.name for device in topology.above(f"GPU{at}")] for at in (a, b)]
        common = set(ways[0]) & set(ways[1])
        if a < b and not common and distance in ("PIX", "PXB", "PHB"):
            yield (
                f"NVML says {distance} for GPU{a} and GPU{b}, and the PCIe tree that the system "
                "shows joins them nowhere below the processor"
            )
