"""Matrices of nvidia-smi topo -m: as published machines print them, printed in other ways, and broken ones."""

import itertools
import tomllib
from pathlib import Path

import pytest

from course import topology
from course.machine import nvidia
from course.machine.graph import NvLink
from course.topology import TopologyError
from course.topology.plot_topology import plot_topology

DATA = Path(__file__).parent / "data"
SMALL = (DATA / "small.txt").read_text()
LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\n"


def read_machines():
    """{name: what the file has of a machine}; "text" with the legend, and "names" of all devices with the cards' own."""
    machines = {}
    for each in tomllib.loads((DATA / "matrices.toml").read_text())["machine"]:
        rows = each["text"].splitlines()[1:]
        names = [row.split("\t")[0] for row in rows]
        cards = dict(zip([name for name in names if name.startswith("NIC")], each.get("cards", ()), strict=False))
        listed = "".join(f"  {name}: {card}\n" for name, card in cards.items())
        text = each["text"] + LEGEND + f"NIC Legend:\n\n{listed}" * bool(cards)
        machines[each["name"]] = each | {"text": text, "names": [cards.get(name, name) for name in names], "rows": rows}
    return machines


MACHINES = read_machines()
LARGE = MACHINES["HGX H100 with ten cards"]["text"]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_matrix_decides_numa_nodes_and_survives_a_round_trip(machine):
    made, names = nvidia.parse(machine["text"]), machine["names"]
    assert [-1 if made.numa_of(name) is None else made.numa_of(name) for name in names] == machine["numas"]
    assert {numa.number for numa in made.numas} == set(machine["numas"]) - {-1}
    rows = [row.replace("SOC", "SYS").replace(" X ", "X").split("\t")[1 : len(names) + 1] for row in machine["rows"]]
    cells = dict(zip(itertools.product(names, names), itertools.chain(*rows), strict=True))
    assert {pair: made.kind(*pair) for pair in cells} == cells
    assert nvidia.read_matrix(made.matrix_text()).kinds == cells
    assert len(made.of("nvswitch")) == machine.get("switch", False)
    notes = " ".join(made.notes)
    assert all(note in notes for note in machine.get("notes", ())), notes
    assert ("fit no tree" in notes) != machine.get("fits", True), notes
    assert all(device.name in str(made) for device in made.devices if device.kind != "nvswitch")
    if "cards" in machine or -1 in machine["numas"]:
        plot_topology(made)


@pytest.mark.parametrize("name", ["dgx-1", "dgx-a100", "dgx-h100", "tesla-k80"])
def test_recorded_machines_have_the_published_matrix(name):
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


def test_small_matrix_has_all_its_parts():
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


@pytest.mark.parametrize(
    "printed",
    [
        LARGE.replace("\t", "    "),
        LARGE.replace("\n", "\r\n"),
        f"\t\x1b[4mGPU0{LARGE[5:]}".replace("Affinity\n", "Affinity\x1b[0m\n"),
        f"root@host:~# nvidia-smi topo -m\n{LARGE}root@host:~# exit\n",
        LARGE.partition("\nLegend")[0] + LARGE.partition("NIC Legend")[2],
    ],
    ids=["spaces", "carriage returns", "underlined", "after a prompt", "without a legend"],
)
def test_each_way_to_print_it_reads_the_same(printed):
    assert printed != LARGE and nvidia.read_matrix(printed) == nvidia.read_matrix(LARGE)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("\tGPU0\tGPU1\tNIC0\tCPU", "\tCPU", "no matrix heading"),
        ("GPU1\tNV4", "GPU1\tNV3", "GPU0 to GPU1 is NV4, and GPU1 to GPU0 is NV3"),
        ("0-3\t0", "3-0\t0", "line 2: '3-0' is not a list of numbers"),
        ("0-3\t0", "0–3\t0", "line 2"),  # a word processor's hyphen
        ("\nGPU", "\n> GPU", "line 2"),  # quoted in a mail
        ("\tPIX\t0-3", "\n\tPIX\t0-3", "line 2: '' under NIC0"),  # wrapped
        (SMALL[SMALL.index("NIC0\tPIX") :], "", "line 4: '' instead of a row of NIC0"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(old, new, expected):
    assert old in SMALL
    with pytest.raises(TopologyError, match=f"^topo.txt.*{expected}"):
        nvidia.parse(SMALL.replace(old, new, 1), file="topo.txt")


def test_byte_order_mark_is_skipped_and_other_encodings_are_refused(tmp_path):
    (tmp_path / "topo.txt").write_text(SMALL, encoding="utf-8-sig")
    assert topology.load(tmp_path / "topo.txt").matrix().equals(nvidia.parse(SMALL).matrix())
    (tmp_path / "topo.txt").write_text(SMALL, encoding="utf-16")
    with pytest.raises(TopologyError, match="UTF-8"):
        topology.load(tmp_path / "topo.txt")
