"""Matrices of nvidia-smi topo -m: those that are published, a small one, and broken ones."""

from pathlib import Path

import pytest

from course import topology
from course.topology import TopologyError, nvidia
from course.topology.graph import NvLink

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
        ("\tGPU0\tGPU1\tNIC0\tCPU", "\tCPU", "no matrix heading"),
        ("GPU1\tNV4", "GPU1\tNV3", "GPU0 to GPU1 is NV4, and GPU1 to GPU0 is NV3"),
        ("0-3\t0", "3-0\t0", "line 2: '3-0' is not a list of numbers"),
        (SMALL[SMALL.index("NIC0\tPIX") :], "", "line 4: '' instead of a row of NIC0"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(old, new, expected):
    assert old in SMALL
    with pytest.raises(TopologyError, match=expected):
        nvidia.parse(SMALL.replace(old, new, 1), file="topo.txt")
