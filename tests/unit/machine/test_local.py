"""This machine: GPUs by NVML's real Python binding with made-up answers of the driver."""

import pynvml
import pytest

from course import topology

GPUS = [f"00000000:{bus}:00.0" for bus in ("03", "04", "81", "82")]  # as in the made-up machine
SWITCHES = ["00000000:A0:00.0", "00000000:A1:00.0"]


@pytest.fixture
def here(machine, monkeypatch):
    """Return a function that gives the machine's topology, with GPUs and the other ends of each one's NVLinks."""

    def pci(address):
        return pynvml.nvmlPciInfo_t(busId=address.encode())

    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def here(gpus, *links):
        links = dict(enumerate(links))

        def end(gpu, link):
            return links.get(gpu, ())[link]

        answers = {
            "Init": lambda: None,
            "Shutdown": lambda: None,
            "DeviceGetCount": lambda: len(gpus),
            "DeviceGetHandleByIndex": lambda index: index,
            "DeviceGetPciInfo": lambda gpu: pci(gpus[gpu]),
            "DeviceGetName": lambda gpu: "Some V100",
            "DeviceGetMemoryInfo": lambda gpu: pynvml.c_nvmlMemory_t(total=2**34),
            "DeviceGetMaxPcieLinkGeneration": lambda gpu: 3,
            "DeviceGetMaxPcieLinkWidth": lambda gpu: 16,
            "DeviceGetCudaComputeCapability": lambda gpu: (7, 0),
            "DeviceGetNvLinkState": lambda gpu, link: link < len(links.get(gpu, ())) or refuse(),
            "DeviceGetNvLinkRemotePciInfo": lambda gpu, link: pci(end(gpu, link)) if end(gpu, link) else refuse(),
            "DeviceGetNvLinkRemoteDeviceType": lambda gpu, link: 0 if end(gpu, link) in GPUS else 2,
        }
        for name, answer in answers.items():
            monkeypatch.setattr(pynvml, f"nvml{name}", answer)
        return topology.here(machine)

    return here


def test_gpus_are_placed_in_the_pcie_tree_and_their_nvlinks_counted_once(here):
    found = here(GPUS, [GPUS[1]] * 2, [GPUS[0]] * 2, [GPUS[3]], [GPUS[2]])
    assert found.origin == "measured here by /sys and /proc, NVML"
    assert [(gpu.name, gpu.model, gpu.address, gpu.memory_bytes, found.numa_of(gpu.name)) for gpu in found.gpus] == [
        (f"GPU{at}", "Some V100", gpu[4:], 2**34, at // 2) for at, gpu in enumerate(GPUS)
    ]
    # /sys says that the slot of GPU3 is narrower than NVML does; NVML knows both ends.
    assert all(gpu.gb_per_s == pytest.approx(15.754, abs=1e-3) for gpu in found.gpus)
    assert [(link.a, link.b, link.count, link.generation) for link in found.nvlinks] == [
        ("GPU0", "GPU1", 2, 2),
        ("GPU2", "GPU3", 1, 2),
    ]
    assert found.matrix(nics=True).loc["GPU0"].tolist() == ["X", "NV2", "SYS", "SYS", "PIX"]


def test_gpus_have_nvidia_smis_numbers_where_it_omits_some(here):
    found = here(GPUS[2:], [GPUS[3], GPUS[0]], [GPUS[2], GPUS[0]])
    assert [gpu.address[5:7] for gpu in found.gpus] == ["81", "82", "03", "04"]
    assert [gpu.model for gpu in found.gpus] == ["Some V100"] * 2 + [""] * 2
    assert [found.kind("GPU0", f"GPU{at}") for at in (1, 2, 3)] == ["NV1", "NV1", "SYS"]
    assert found.kind("GPU2", "GPU3") == "PIX" and not found.of("nvswitch")


def test_nvlinks_to_switches_are_counted_for_each_and_hidden_ends_taken_for_one(here):
    found = here(GPUS, *[[SWITCHES[0], SWITCHES[0], SWITCHES[1]]] * 4)
    assert [(switch.name, switch.address) for switch in found.of("nvswitch")] == [
        ("NVSwitch0", "0000:a0:00.0"),
        ("NVSwitch1", "0000:a1:00.0"),
    ]
    assert [(link.b, link.count) for link in found.nvlinks[:2]] == [("NVSwitch0", 2), ("NVSwitch1", 1)]
    assert found.kind("GPU0", "GPU3") == "NV3"
    found = here(GPUS[:2], [""], [""])
    assert [switch.address for switch in found.of("nvswitch")] == [""] and found.kind("GPU0", "GPU1") == "NV1"
    assert any("where NVLink 0 of GPU0 leads" in note for note in found.notes)


def test_gpus_that_sys_does_not_show_have_unknown_distances(here):
    found = here(["00000000:C1:00.0", "00000000:C2:00.0"])
    assert found.kind("GPU0", "GPU1") == "?"
    assert any("distances are unknown" in note for note in found.notes)
