"""GPUs, NVLinks and NVSwitches reported by NVML (``libnvidia-ml``), part of the driver."""

from typing import NamedTuple

import pynvml

from course.machine.pci import address

# NVLink generation by compute capability. Consumer and workstation chips (8.6 and others) have links with fewer
# lanes and other rates.
GENERATIONS = {(6, 0): 1, (7, 0): 2, (8, 0): 3, (9, 0): 4, (10, 0): 5, (10, 3): 5}


class Gpu(NamedTuple):
    """A GPU."""

    address: str  # "0000:06:00.0"
    facts: dict  # fields of a `Device`; the maximal PCIe generation, because an idle link runs slower
    nvlink_generation: int | None
    # other end of each active NVLink: ("gpu", address), ("nvswitch", address), or ("nvswitch", "") if hidden by a VM
    links: list[tuple[str, str]]


def read() -> tuple[list[Gpu], list[str]]:
    """Return the GPUs in nvidia-smi's order, and notes on failed queries; no GPUs without a driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [], [f"NVML finds no NVIDIA GPU: {error}"]
    notes = []
    try:
        return [_gpu(number, notes) for number in range(pynvml.nvmlDeviceGetCount())], notes
    except pynvml.NVMLError as error:
        return [], [f"NVML stopped answering: {error}"]
    finally:
        pynvml.nvmlShutdown()


def _gpu(number, notes):
    handle = pynvml.nvmlDeviceGetHandleByIndex(number)
    memory = _ask("MemoryInfo", handle)
    facts = {
        "model": _ask("Name", handle),
        "memory_bytes": memory and int(memory.total),
        "generation": _ask("MaxPcieLinkGeneration", handle),
        "width": _ask("MaxPcieLinkWidth", handle),
    }
    return Gpu(
        address(pynvml.nvmlDeviceGetPciInfo(handle).busId),
        {fact: value for fact, value in facts.items() if value},
        GENERATIONS.get(_ask("CudaComputeCapability", handle)),
        list(_links(handle, f"GPU{number}", notes)),
    )


def _ask(name, *arguments):
    """Return a query's answer, or None: old drivers and simple GPUs don't support all queries."""
    try:
        return getattr(pynvml, f"nvmlDeviceGet{name}")(*arguments)
    except pynvml.NVMLError:
        return None


def _links(handle, name, notes):
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if not _ask("NvLinkState", handle, link):
            continue  # not active, or the GPU has no such link
        try:
            end = address(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId) or ""
        except pynvml.NVMLError as error:
            end = ""
            notes.append(f"where NVLink {link} of {name} leads, taken for an NVSwitch: {error}")
        # Drivers that don't know the kind are older than NVSwitches.
        kind = _ask("NvLinkRemoteDeviceType", handle, link)
        yield ("nvswitch" if not end or kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH else "gpu", end)
