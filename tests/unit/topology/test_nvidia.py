"""Matrices of nvidia-smi topo -m: those that are published, made-up ones, and broken ones."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from course import topology
from course.topology import TopologyError, nvidia
from course.topology.graph import Device, Numa, NvLink, Socket, Topology

DATA = Path(__file__).parent / "data"

SMALL = (DATA / "small.txt").read_text()


@pytest.mark.parametrize("name", ["dgx-1", "dgx-a100", "dgx-h100", "tesla-k80"])
def test_recorded_and_made_machines_have_the_published_matrix(name):
    published = nvidia.read_matrix((DATA / f"{name}.txt").read_text(), name)
    made = topology.load(DATA / f"{name}.txt")
    assert not any("fit no tree" in note for note in made.notes)
    for machine in [made, *(topology.load(each) for each in topology.names() if each == name)]:
        matrix = machine.matrix(nics=True)
        assert set(matrix) <= set(published.names) and len(matrix) >= 4
        assert all(published.kinds[a, b] == matrix.loc[a, b] for a in matrix for b in matrix)
        for gpu in machine.gpus:
            numa = machine.numa_of(gpu.name)
            assert published.threads[gpu.name] == machine.threads_of(numa)
            assert published.numas.get(gpu.name, (numa,)) == (numa,)


def test_a_small_matrix_in_all_its_parts():
    made = nvidia.parse(SMALL)
    assert [gpu.name for gpu in made.gpus] == ["GPU0", "GPU1"]
    assert [nic.name for nic in made.nics] == ["mlx5_3"]
    assert made.nvlinks == (NvLink("GPU0", "GPU1", 4),)
    assert made.threads_of(0) == (0, 1, 2, 3)
    assert "NUMA node 1  4 threads (4-7)" in str(made) and "cores" not in made.summary()
    assert "between NUMA nodes" in [hop.kind for hop in made.path("mlx5_3", "GPU1")]
    assert (made.numa_of("GPU1"), made.numa_of("mlx5_3")) == (1, 0)
    assert made.kind("GPU0", "mlx5_3") == "PIX"
    # An empty CPU affinity leaves the NUMA node in its place.
    matrix = nvidia.read_matrix(SMALL.replace("\t0-3\t0\t", "\t\t0\t"))
    assert "GPU0" not in matrix.threads and matrix.numas == {"GPU0": (0,), "GPU1": (1,)}


def test_what_fits_no_tree_is_said():
    # Two cards under GPU0's switch that are far from each other.
    text = (
        "\tGPU0\tmlx5_0\tmlx5_1\tCPU Affinity\nGPU0\t X \tPIX\tPIX\t0\nmlx5_0\tPIX\t X \tSYS\nmlx5_1\tPIX\tSYS\t X \n"
    )
    assert "mlx5_0 and mlx5_1" in " ".join(nvidia.parse(text).notes)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("\tGPU0\tGPU1\tNIC0\tCPU", "\tCPU", "it has no heading of a matrix"),
        ("GPU1\tNV4", "GPU1\tNV3", "GPU0 to GPU1 is NV4, and GPU1 to GPU0 is NV3"),
        ("0-3\t0", "3-0\t0", "line 2: '3-0' is not a list of numbers"),
        (SMALL[SMALL.index("NIC0\tPIX") :], "", "line 3: it ends without a row of NIC0"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(old, new, expected):
    assert old in SMALL
    with pytest.raises(TopologyError, match=expected):
        nvidia.parse(SMALL.replace(old, new, 1), file="topo.txt")


def random_machine(seed):
    """Roots, switches in two levels, GPUs and cards at random, and NVLinks between some."""
    dice = random.Random(seed)
    nodes = dice.randint(1, 4)
    devices, gpus, nics = [], 0, 0
    for node in range(nodes):
        for root in range(dice.randint(1, 2)):
            top = f"r{node}{root}"
            devices.append(Device(top, "root", numa=node))
            unders = [top]
            for outer in range(dice.randint(0, 2)):
                devices.append(Device(f"{top}s{outer}", "switch", top))
                unders.append(f"{top}s{outer}")
                for inner in range(dice.randint(0, 2)):
                    devices.append(Device(f"{top}s{outer}{inner}", "switch", f"{top}s{outer}"))
                    unders.append(f"{top}s{outer}{inner}")
            for _ in range(dice.randint(1, 3)):
                devices.append(Device(f"GPU{gpus}", "gpu", dice.choice(unders)))
                gpus += 1
            if dice.random() < 0.5:
                devices.append(Device(f"mlx5_{nics}", "nic", dice.choice(unders)))
                nics += 1
    pairs = [(f"GPU{a}", f"GPU{b}") for b in range(gpus) for a in range(b)]
    links = [NvLink(a, b, dice.randint(1, 2), 3) for a, b in dice.sample(pairs, min(len(pairs), dice.randint(0, 3)))]
    return Topology(
        f"random {seed}",
        "made up",
        (Socket(0),),
        tuple(Numa(node, 0) for node in range(nodes)),
        devices=tuple(devices),
        nvlinks=tuple(links),
    )


def test_random_machines_come_back_from_their_matrix_and_broken_ones_are_read_or_refused():
    for seed in range(25):
        machine = random_machine(seed)
        text = machine.matrix_text()
        again = nvidia.parse(text)
        assert again.matrix(nics=True).equals(machine.matrix(nics=True)), text
        assert nvidia.read_matrix(again.matrix_text()).kinds == nvidia.read_matrix(text).kinds
        dice, broken = random.Random(seed), list(text)
        for _ in range(dice.randint(1, 4)):
            broken[dice.randrange(len(broken))] = dice.choice(["", "\t", "\n", "X", "9", " ", "Ω", "NV"])
        with suppress(TopologyError):
            nvidia.parse("".join(broken))
