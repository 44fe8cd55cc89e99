"""XML of hwloc's versions 2 and 3, and broken XML."""

import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from course import topology
from course.topology import TopologyError, hwloc
from course.topology.graph import Cache, Core

DATA = Path(__file__).parent / "data"
VERSION_2 = (DATA / "hwloc-2.xml").read_text()  # two sockets; below the second, a switch with two GPUs and a card
VERSION_3 = (DATA / "hwloc-3.xml").read_text()  # what the system makes of devices is told in bits; with NVLinks


def test_version_3_has_the_network_cards_and_tells_models_and_memory():
    machine = hwloc.parse(VERSION_3)
    older = hwloc.parse(VERSION_2)
    assert [(nic.name, nic.network) for nic in machine.nics] == [("mlx5_0", "InfiniBand")]
    assert machine.nics == older.nics
    assert [(gpu.model, gpu.memory_bytes) for gpu in machine.gpus] == [("Tesla V100-SXM2-16GB", 2**34)] * 2
    assert not machine.nvlinks and "NVLinks are not read" in str(machine)
    assert not machine.device("0000:81:00.0").model


def test_version_2_is_read():
    machine = hwloc.parse(VERSION_2)
    assert [(s.number, s.model) for s in machine.sockets] == [(0, "Some Processor"), (1, "Some Processor")]
    assert [(n.number, n.socket, n.memory_bytes) for n in machine.numas] == [(0, 0, 2**30), (1, 1, 2**30)]
    assert machine.cores == (Core(0, 0, 0, (0, 4)), Core(1, 0, 0, (1, 5)), Core(2, 1, 1, (2, 6)), Core(3, 1, 1, (3, 7)))
    assert [c for c in machine.caches if c.level != 1] == [
        *(Cache(2, "unified", 2**20, (core,)) for core in range(4)),
        Cache(3, "unified", 2**24, (0, 1)),
        Cache(3, "unified", 2**24, (2, 3)),
    ]
    assert [(d.name, d.kind, d.under) for d in machine.devices] == [
        ("pci0000:80", "root", ""),
        ("0000:81:00.0", "switch", "pci0000:80"),
        ("GPU0", "gpu", "0000:81:00.0"),
        ("GPU1", "gpu", "0000:81:00.0"),
        ("mlx5_0", "nic", "0000:81:00.0"),
    ]
    assert machine.numa_of("GPU1") == 1
    assert machine.kind("GPU0", "mlx5_0") == "PIX"
    assert machine.bandwidth("GPU0", "GPU1") == pytest.approx(15.753846)


def test_memory_of_gpus_and_empty_nodes_are_not_listed_as_numa_nodes():
    """As on a Grace Hopper: GPU memory is a separate node, and more nodes are reserved for its partitions."""
    nodes = '<object type="NUMANode" os_index="{}" cpuset="0x0"{}/>'
    gpu_memory = nodes.format(2, f' local_memory="{96 * 2**30}" subtype="GPUMemory"')
    reserved = nodes.format(3, "")  # hwloc writes no attribute for 0 bytes
    text = VERSION_2.replace('<object type="Package"', f'{gpu_memory}{reserved}<object type="Package"', 1)
    machine = hwloc.parse(text)
    assert [numa.number for numa in machine.numas] == [0, 1]
    assert "NUMA node 2" in str(machine) and "96 GiB" in str(machine)


def test_processing_accelerators_and_their_partitions_are_shown():
    """As on an AMD Instinct MI300A divided into three: PCI class 1200, one PCI device with three GPUs."""
    parts = "".join(
        f'<object type="OSDev" name="rsmi{number}" osdev_type="1"><info name="Backend" value="RSMI"/>'
        '<info name="GPUModel" value="AMD Instinct MI300A"/></object>'
        for number in range(3)
    )
    device = (
        f'<object type="PCIDev" pci_busid="0000:91:00.0" pci_type="{{}} [1002:74a0] [1002:74a0] 00">{parts}</object>'
    )
    for pci_class in ("1200", "0b40"):  # hwloc names the second as a GPU
        text = VERSION_2.replace('<object type="PCIDev"', f'{device.format(pci_class)}<object type="PCIDev"', 1)
        machine = hwloc.parse(text)
        assert [gpu.model for gpu in machine.gpus if gpu.address == "0000:91:00.0"] == ["AMD Instinct MI300A"]
        assert any("3" in note and "rsmi0" in note for note in machine.notes)


def test_file_type_by_name_or_content(tmp_path):
    (tmp_path / "server.xml").write_text(VERSION_2)
    assert topology.load(tmp_path / "server.xml").name == "server"
    cores = hwloc.parse(VERSION_2).cores
    for text in (f"\n \n{VERSION_2}", f"<!-- our server -->\n{VERSION_2.partition('?>')[2].lstrip()}"):
        (tmp_path / "server.txt").write_text(text)
        assert topology.load(tmp_path / "server.txt").cores == cores
    reading, writing = os.pipe()
    os.write(writing, VERSION_2.encode())
    os.close(writing)
    assert topology.load(f"/dev/fd/{reading}").cores == cores
    os.close(reading)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("</topology>", "", "machine.xml, line {last}: this is not XML"),
        ('cpuset="0x00000033"', 'cpuset="all"', "machine.xml: cpuset='all' of an <object> of type 'Package'"),
        ('pci_busid="0000:81:00.0"', 'pci_busid="x"', "pci_busid='x' of an <object> of type 'Bridge'"),
        ('version="2.0"', 'version="1.0"', "machine.xml: this is not the XML of hwloc 2 or 3"),
        (VERSION_2, '<topology version="2.0"/>', "machine.xml: <topology> holds no <object>"),
        (VERSION_2, "", "machine.xml, line 1: this is not XML"),
    ],
)
def test_what_cannot_be_read_is_named(old, new, expected):
    assert old in VERSION_2
    broken = VERSION_2.replace(old, new, 1)
    with pytest.raises(TopologyError, match=expected.format(last=broken.count("\n") + 1)):
        hwloc.parse(broken, file="machine.xml")


def test_randomly_broken_files_are_refused_or_read():
    for seed in range(100):
        dice = random.Random(seed)
        text = list(VERSION_2)
        for _ in range(dice.randint(1, 4)):
            text[dice.randrange(len(text))] = dice.choice(["", '"', "<", "0", "9", "x", "-", " "])
        with suppress(TopologyError):
            hwloc.parse("".join(text), file="machine.xml")
