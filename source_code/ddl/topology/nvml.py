"""What NVIDIA's management library says of GPUs, NVLinks and NVSwitches.

``libnvidia-ml`` comes with the driver; without it there is nothing to ask, and no GPU to use.
"""

from dataclasses import dataclass

from ddl.topology.pci import address

__all__ = ["Gpu", "Report", "read"]

# Of a GPU's compute capability: the generation of its NVLinks. That of consumer and workstation
# chips (8.6 and others) has fewer lanes, so that its rate is another.
GENERATIONS = {(6, 0): 1, (7, 0): 2, (8, 0): 3, (9, 0): 4, (10, 0): 5, (10, 3): 5}
LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


@dataclass(frozen=True)
class Gpu:
    """A GPU."""

    address: str  # address, model: "0000:06:00.0", "Tesla V100-SXM2-16GB"
    model: str
    memory_bytes: int | None
    # generation, width: the most that GPU and slot can have on PCIe: an idle GPU runs its link slower
    generation: int | None
    width: int | None
    nvlink_generation: int | None
    # an end of each active NVLink: ("gpu", address), ("nvswitch", address) or ("nvswitch", "") where a virtual machine
    # hides it
    links: tuple


@dataclass(frozen=True)
class Report:
    """What the library said."""

    gpus: tuple = ()  # in the order in which nvidia-smi counts
    distances: dict | None = None  # "PIX" to "SYS" for pairs of their numbers; missing where the library doesn't know
    notes: tuple = ()  # what it could not say


def read() -> Report:
    """Ask the library.

    Returns
    -------
    Report
        Without GPUs where there is no driver; its `notes` then say so.
    """
    try:
        import pynvml
    except ImportError:
        return Report(notes=("GPUs were not asked for: nvidia-ml-py is not installed",))
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Report(notes=(f"no NVIDIA GPU that NVML could tell of: {error}",))
    try:
        return _report(pynvml)
    except pynvml.NVMLError as error:
        return Report(notes=(f"NVML stopped answering: {error}",))
    finally:
        pynvml.nvmlShutdown()


def _report(pynvml):
    notes = []

    def ask(name, *arguments, missing=None):
        """What the driver may be too old, or the GPU too simple, to know."""
        try:
            return getattr(pynvml, f"nvmlDeviceGet{name}")(*arguments)
        except pynvml.NVMLError as error:
            if missing is not None:
                notes.append(f"{missing}: {error}")
            return None

    handles = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
    gpus = []
    for at, handle in enumerate(handles):
        memory = ask("MemoryInfo", handle)
        gpus.append(
            Gpu(
                address(_string(pynvml.nvmlDeviceGetPciInfo(handle).busId)) or "",
                _string(ask("Name", handle) or ""),
                memory and int(memory.total),
                ask("MaxPcieLinkGeneration", handle),
                ask("MaxPcieLinkWidth", handle),
                GENERATIONS.get(tuple(ask("CudaComputeCapability", handle) or ())),
                tuple(_links(pynvml, ask, handle, f"GPU{at}")),
            )
        )
    distances = {}
    for a in range(len(handles)):
        for b in range(a + 1, len(handles)):
            level = ask(
                "TopologyCommonAncestor",
                handles[a],
                handles[b],
                missing=f"how far GPU{a} and GPU{b} are from each other",
            )
            if level in LEVELS:
                distances[a, b] = distances[b, a] = LEVELS[level]
    return Report(tuple(gpus), distances, tuple(notes))


def _links(pynvml, ask, handle, name):
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if not ask("NvLinkState", handle, link):
            continue  # not active, or the GPU has no such link
        remote = ask(
            "NvLinkRemotePciInfo", handle, link, missing=f"where NVLink {link} of {name} leads, taken for an NVSwitch"
        )
        kind = ask("NvLinkRemoteDeviceType", handle, link)
        at = address(_string(remote.busId)) if remote else None
        # Drivers that cannot say the kind are older than NVSwitches.
        switch = kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH or not at
        yield ("nvswitch" if switch else "gpu", at or "")


def _string(text):
    return text.decode() if isinstance(text, bytes) else text
