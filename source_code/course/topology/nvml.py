"""GPUs, NVLinks and NVSwitches reported by NVML (``libnvidia-ml``), part of the driver."""

from typing import NamedTuple

from course.topology.pci import address

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
        import pynvml
    except ImportError:
        return [], ["cannot look for GPUs: nvidia-ml-py is not installed"]
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [], [f"NVML finds no NVIDIA GPU: {error}"]
    try:
        return _report(pynvml)
    except pynvml.NVMLError as error:
        return [], [f"NVML stopped answering: {error}"]
    finally:
        pynvml.nvmlShutdown()


def _report(pynvml):
    notes = []

    def ask(name, *arguments, missing=None):
        """Run a query that old drivers and simple GPUs may not support."""
        try:
            return getattr(pynvml, f"nvmlDeviceGet{name}")(*arguments)
        except pynvml.NVMLError as error:
            if missing is not None:
                notes.append(f"{missing}: {error}")
            return None

    gpus = []
    for at in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(at)
        memory = ask("MemoryInfo", handle)
        facts = {
            "model": _string(ask("Name", handle) or ""),
            "memory_bytes": memory and int(memory.total),
            "generation": ask("MaxPcieLinkGeneration", handle),
            "width": ask("MaxPcieLinkWidth", handle),
        }
        gpus.append(
            Gpu(
                address(_string(pynvml.nvmlDeviceGetPciInfo(handle).busId)) or "",
                {fact: value for fact, value in facts.items() if value},
                GENERATIONS.get(tuple(ask("CudaComputeCapability", handle) or ())),
                list(_links(pynvml, ask, handle, f"GPU{at}")),
            )
        )
    return gpus, notes


def _links(pynvml, ask, handle, name):
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if not ask("NvLinkState", handle, link):
            continue  # not active, or the GPU has no such link
        remote = ask(
            "NvLinkRemotePciInfo", handle, link, missing=f"where NVLink {link} of {name} leads, taken for an NVSwitch"
        )
        kind = ask("NvLinkRemoteDeviceType", handle, link)
        at = address(_string(remote.busId)) if remote else None
        # Drivers that don't know the kind are older than NVSwitches.
        switch = kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH or not at
        yield ("nvswitch" if switch else "gpu", at or "")


def _string(text):
    return text.decode() if isinstance(text, bytes) else text
