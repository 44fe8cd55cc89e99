"""A topology as text: the tree of its parts, and its matrix in the format of ``nvidia-smi topo -m``."""

import math
from collections import Counter

from course.machine.parts import DEVICE_KINDS
from ddl.text import plural


def tree(topology) -> str:
    """Return a topology's parts as an indented tree, one per line."""
    lines = [f"{topology.title or topology.name}  ({topology.origin})"]
    for socket in topology.sockets:
        lines.append(f"  socket {socket.number}  {socket.model}".rstrip())
        for numa in topology.numas:
            if numa.socket == socket.number:
                lines += _numa(topology, numa)
    for numa in topology.numas:
        if numa.socket is None:
            lines += _numa(topology, numa)
    lines += _devices(topology, None, depth=1)
    lines += [
        f"  socket {link.a} – socket {link.b}  {link.count} × {link.kind}"
        + (f", {link.gb_per_s:g} GB/s each and per direction" if link.gb_per_s else "")
        for link in topology.socket_links
    ]
    lines += _nvlinks(topology)
    if network := topology.network:
        lines.append(
            f"  network  {network.nics} × {network.kind}, {network.gbit_per_s:g} Gbit/s "
            f"each: {network.gb_per_s:g} GB/s per direction"
        )
    if topology.limit:
        lines.append(f"  usable here: {topology.limit} (affinity, cgroup or scheduler)")
    return "\n".join([*lines, *(f"  note: {note}" for note in topology.notes)])


def amount(size_bytes):
    """Format a number of bytes in a suitable binary unit: ``32 KiB``."""
    power = min(3, int(math.log(max(size_bytes, 1), 1024)))
    return f"{size_bytes / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def _numa(topology, numa):
    cores = [core for core in topology.cores if core.numa == numa.number]
    threads = topology.threads_of(numa.number)
    facts = [plural(len(cores), "core")] if cores else []
    if len(threads) != len(cores):
        facts.append(f"{len(threads)} threads")
    if threads:
        facts[-1] += f" ({ranges(threads)})"
    if numa.memory_bytes:
        facts.append(
            f"{amount(numa.memory_bytes)} of memory"
            + (f" at {numa.memory_gb_per_s:g} GB/s" if numa.memory_gb_per_s else "")
        )
    yield f"    NUMA node {numa.number}  {', '.join(facts)}".rstrip()
    yield from _caches(topology, numa)
    yield from _devices(topology, numa.number)


def _caches(topology, numa):
    local = {core.number for core in topology.cores if core.numa == numa.number}
    alike = Counter(
        (cache.level, cache.kind, cache.size_bytes, len(cache.cores))
        for cache in topology.caches
        if local & set(cache.cores)
    )
    for (level, kind, size, cores), count in sorted(alike.items(), reverse=True):
        of = "a core's own" if cores == 1 else f"shared by {cores} cores"
        yield (f"      {count} × L{level}{'' if kind == 'unified' else f' {kind}'} cache, {amount(size)}, {of}")


def _devices(topology, numa, depth=3):
    """Return the lines of the trees at a NUMA node; None for unknown nodes."""
    under = {}
    for device in topology.devices:
        under.setdefault(device.under, []).append(device)

    def lines(device, depth):
        yield "  " * depth + _device(device)
        for below in under.get(device.name, ()):
            yield from lines(below, depth + 1)

    for device in under.get("", ()):
        if device.numa == numa:
            yield from lines(device, depth)


def _device(device):
    facts = [device.model, device.address]
    if device.gb_per_s and device.kind != "root":
        facts.append(f"{device.pcie}: {device.gb_per_s:.4g} GB/s")
    if device.gbit_per_s:
        facts.append(f"{device.network} {device.gbit_per_s:g} Gbit/s".strip())
    if device.memory_bytes:
        memory = amount(device.memory_bytes)
        facts.append(memory + (f" at {device.memory_gb_per_s:g} GB/s" if device.memory_gb_per_s else ""))
    text = ", ".join(fact for fact in facts if fact)
    return f"{DEVICE_KINDS[device.kind]} {device.name}" + (f"  {text}" if text else "")


def _nvlinks(topology):
    for gpu in topology.gpus:
        ends = Counter()
        for link in topology.nvlinks:
            if gpu.name in (link.a, link.b):
                ends[link.other(gpu.name)] += link.count
        switches = [end for end in ends if topology.device(end).kind == "nvswitch"]
        if len(switches) > 1:
            ends[f"{len(switches)} NVSwitches"] = sum(ends.pop(end) for end in switches)
        if ends:
            yield (f"  NVLinks of {gpu.name}  " + ", ".join(f"{count} to {end}" for end, count in ends.items()))


def matrix_text(topology) -> str:
    """Return the matrix of GPUs and network cards as ``nvidia-smi topo -m`` lays it out; `nvidia.parse` reads it."""
    matrix = topology.matrix(nics=True)
    lines = ["\t".join(["", *matrix.columns, "CPU Affinity", "NUMA Affinity"])]
    gpus = {gpu.name for gpu in topology.gpus}
    for name, row in matrix.iterrows():
        cells = [" X " if cell == "X" else cell for cell in row]
        if name in gpus:
            numa = topology.numa_of(name)
            threads = () if numa is None else topology.threads_of(numa)
            cells += [ranges(threads) or "N/A", "N/A" if numa is None else str(numa)]
        lines.append("\t".join([name, *cells]))
    return "\n".join(lines) + "\n"


def ranges(numbers):
    """Format numbers like the kernel's lists of processors: ``0-3,8``."""
    runs = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
