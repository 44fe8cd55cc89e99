"""PCI tree: root complexes, switches and devices from the system's list of functions.

A PCIe switch appears as a bridge (its upstream port) with one bridge below it for each downstream port. So on the path
down from a root complex, bridges alternate: root port, switch, port of that switch, next switch, its port, and so on.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from course.machine.parts import Device

NVIDIA, AMD, INTEL, HABANA = 0x10DE, 0x1002, 0x8086, 0x1DA3
DISPLAY, ACCELERATOR = 0x03, 0x12  # classes
INTEL_GPU = 0x0380  # "other display controller": Intel's cards for servers, and not the graphics of its processors
ADDRESS = r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])"


@dataclass(frozen=True)
class Function:
    """A function of a PCI device, or a bridge."""

    device: Device  # without `under`; bridges and devices irrelevant to training have kind "other"
    root: str  # the host bridge's domain and bus: "0000:80"
    above: tuple[str, ...] = ()  # addresses of the bridges above it, from the root port down


def kind_of(pci_class: int, vendor: int) -> str:
    """Return the kind of device for a 16-bit PCI class (0x0302) and a vendor, or ""."""
    makers = {DISPLAY: (NVIDIA, AMD), ACCELERATOR: (NVIDIA, AMD, HABANA)}.get(pci_class >> 8, ())
    if vendor in makers or (pci_class, vendor) == (INTEL_GPU, INTEL):
        return "gpu"
    return "nvswitch" if (pci_class, vendor) == (0x0680, NVIDIA) else ""


def address(text):
    """Return a PCI address in the kernel's form, "0000:06:00.0", or None; NVML's domain has eight digits."""
    match = re.fullmatch(ADDRESS, text.strip())
    if not match:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def devices(functions: Iterable[Function]) -> tuple[Device, ...]:
    """Return root complexes, switches and devices, parents first.

    Bridges are kept only above a device of a known kind. GPUs and NVSwitches are numbered in the order of their
    addresses.
    """
    functions = {function.device.address: function for function in functions}
    roots, switches, leaves, counts = {}, {}, [], {"gpu": 0, "nvswitch": 0}
    for _, function in sorted(functions.items()):
        device = function.device
        if device.kind == "other":
            continue
        under = f"pci{function.root}"
        roots.setdefault(under, Device(under, "root", numa=device.numa))
        for bridge in function.above[1::2]:
            switches.setdefault(bridge, replace(functions[bridge].device, name=bridge, kind="switch", under=under))
            under = bridge
        name = device.name
        if device.kind in counts:
            name = f"{'GPU' if device.kind == 'gpu' else 'NVSwitch'}{counts[device.kind]}"
            counts[device.kind] += 1
        leaves.append(replace(device, name=name, under=under))
    return (*roots.values(), *switches.values(), *leaves)
