"""Turn the system's list of PCI functions into root complexes, switches and devices.

A PCIe switch appears as a bridge (its upstream port) with one bridge below it for each downstream port. So on the path
down from a root complex, bridges alternate: root port, switch, port of that switch, next switch, its port, and so on.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ddl.topology.graph import Device

NVIDIA, AMD = 0x10DE, 0x1002


@dataclass(frozen=True)
class Function:
    """A function of a PCI device, or a bridge."""

    address: str  # "0000:81:00.0"
    root: str  # the host bridge's domain and bus: "0000:80"
    above: tuple[str, ...] = ()  # addresses of the bridges above it, from the root port down
    pci_class: int = 0  # in its 16-bit form: 0x0302
    vendor: int = 0
    numa: int | None = None
    model: str = ""
    generation: int | None = None
    width: int | None = None
    gb_per_s: float | None = None  # of its link, where only that is known
    nic: str = ""  # the system's name for it, if it is one; likewise disk and memory
    disk: str = ""
    memory: str = ""
    memory_bytes: int | None = None  # of a GPU, or of plugged-in memory
    gbit_per_s: float | None = None
    network: str = ""

    @property
    def kind(self):
        """The kind of device; empty if it plays no part in training."""
        if self.pci_class >> 8 == 0x03 and self.vendor in (NVIDIA, AMD):
            return "gpu"
        if self.pci_class == 0x0680 and self.vendor == NVIDIA:
            return "nvswitch"
        return next((kind for kind in ("nic", "memory", "disk") if getattr(self, kind)), "")


def address(text):
    """Return a PCI address in the kernel's form, "0000:06:00.0", or None; NVML's domain has eight digits."""
    match = re.fullmatch(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])", text.strip())
    if not match:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def devices(functions: Iterable[Function]) -> tuple[Device, ...]:
    """Return root complexes, switches and devices, each after what it is under.

    Bridges are kept only above a GPU, NVSwitch, network card, disk or memory. GPUs and NVSwitches are numbered in the
    order of their addresses.
    """
    functions = {function.address: function for function in functions}
    kept = [functions[at] for at in sorted(functions) if functions[at].kind]
    roots, switches, leaves, counts = {}, {}, [], {"gpu": 0, "nvswitch": 0}
    for function in kept:
        root = f"pci{function.root}"
        roots.setdefault(root, Device(root, "root", numa=function.numa))
        under = root
        for at in function.above[1::2]:
            if at not in switches:
                switches[at] = _device(functions[at], at, "switch", under)
            under = at
        kind = function.kind
        if kind in counts:
            name = f"{'GPU' if kind == 'gpu' else 'NVSwitch'}{counts[kind]}"
            counts[kind] += 1
        else:
            name = getattr(function, kind)
        leaves.append(_device(function, name, kind, under))
    return (*roots.values(), *switches.values(), *leaves)


def _device(function, name, kind, under):
    shared = ("numa", "model", "address", "generation", "width", "gb_per_s", "gbit_per_s", "network", "memory_bytes")
    return Device(name, kind, under, **{fact: getattr(function, fact) for fact in shared})
