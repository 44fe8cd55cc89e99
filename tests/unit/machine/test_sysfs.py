"""Machines as Linux describes them."""

import shutil

import pytest

from course.machine import sysfs
from course.machine.graph import Cache, Core
from course.topology.plot_topology import plot_topology


def test_processors_and_memory_are_read(machine):
    topology = sysfs.read(machine)
    assert [(s.number, s.model) for s in topology.sockets] == [(0, "Some Processor 9000"), (1, "Some Processor 9000")]
    assert [(n.number, n.socket, n.memory_bytes) for n in topology.numas] == [(0, 0, 2**30), (1, 1, 2**30)]
    assert topology.cores == (
        Core(0, 0, 0, (0, 4)),
        Core(1, 0, 0, (1, 5)),
        Core(2, 1, 1, (2, 6)),
        Core(3, 1, 1, (3, 7)),
    )
    assert [c for c in topology.caches if c.level == 3] == [
        Cache(3, "unified", 16 * 2**20, (0, 1)),
        Cache(3, "unified", 16 * 2**20, (2, 3)),
    ]
    assert len(topology.caches) == 4 * 3 + 2
    assert topology.threads_of(1) == (2, 3, 6, 7)


def test_a_figure_has_each_numa_node_s_processors_as_one_text_and_all_devices(machine):
    topology = sysfs.read(machine)
    texts = [text.get_text() for text in plot_topology(topology).axes[0].texts]
    assert texts.count("2 cores, 4 threads") == texts.count("L3 16 MiB, L2 2×1 MiB") == 2
    shown = {text.partition("\n")[0] for text in texts}
    assert shown > {device.name for device in topology.devices if device.kind in ("gpu", "nic")}


def test_bridges_become_roots_and_switches(machine):
    topology = sysfs.read(machine)
    assert [(d.name, d.kind, d.under) for d in topology.devices] == [
        ("pci0000:00", "root", ""),
        ("pci0000:80", "root", ""),
        ("0000:01:00.0", "switch", "pci0000:00"),
        ("GPU0", "gpu", "0000:01:00.0"),
        ("GPU1", "gpu", "0000:01:00.0"),
        ("mlx5_0", "nic", "0000:01:00.0"),
        ("GPU2", "gpu", "pci0000:80"),
        ("GPU3", "gpu", "pci0000:80"),
        ("nvme0n1", "disk", "pci0000:80"),
    ]
    matrix = topology.matrix(nics=True)
    assert matrix.loc["GPU0"].tolist() == ["X", "PIX", "SYS", "SYS", "PIX"]
    assert matrix.loc["GPU2"].tolist() == ["SYS", "SYS", "X", "PHB", "SYS"]
    card = topology.device("mlx5_0")
    assert (card.gbit_per_s, card.network, card.generation, card.width) == (100, "InfiniBand", 3, 8)
    assert topology.numa_of("GPU3") == 1


@pytest.mark.parametrize(
    "pci_class, vendor, kind",
    [
        (0x030200, 0x10DE, "gpu"), (0x120000, 0x1002, "gpu"), (0x120000, 0x1DA3, "gpu"),  # NVIDIA, AMD, Gaudi
        (0x038000, 0x8086, "gpu"), (0x030000, 0x8086, ""), (0x120000, 0x8086, ""),  # Intel: card, graphics, unit
        (0x120000, 0x10EE, "left out"),  # an FPGA
    ],
)  # fmt: skip
def test_accelerators_are_named_or_said_to_be_left_out(machine, pci_class, vendor, kind):
    folder = (machine / "sys/bus/pci/devices/0000:02:00.0").resolve()
    (folder / "class").write_text(f"{pci_class:#08x}\n")
    (folder / "vendor").write_text(f"{vendor:#06x}\n")
    topology = sysfs.read(machine)
    assert ("0000:02:00.0" in [gpu.address for gpu in topology.gpus]) == (kind == "gpu")
    assert any("left out" in note and "0000:02:00.0" in note for note in topology.notes) == (kind == "left out")


def test_a_link_is_as_narrow_as_its_narrower_end(machine):
    port = machine / "sys/devices/pci0000:80/0000:80:00.0"
    (port / "max_link_speed").write_text("5.0 GT/s PCIe\n")
    (port / "max_link_width").write_text("4\n")
    gpu = sysfs.read(machine).device("GPU2")
    assert (gpu.generation, gpu.width, gpu.gb_per_s) == (2, 4, 2.0)


def test_no_numa_nodes_count_as_one(machine):
    shutil.rmtree(machine / "sys/devices/system/node")
    topology = sysfs.read(machine)
    assert [(n.number, n.memory_bytes) for n in topology.numas] == [(0, 2 * 2**30)]
    assert {core.numa for core in topology.cores} == {0}
    assert "no NUMA nodes" in topology.notes[0]
