"""Matrices as published machines print them."""

import itertools
from pathlib import Path

import pytest

from course import topology
from course.topology import TopologyError, nvidia
from course.topology.plot_topology import plot_topology
from ddl.records import toml

LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\n"


def read_machines():
    """{name: what the file has of a machine}; "text" with the legend, and "names" of all devices with the cards' own."""
    machines = {}
    for each in toml.loads((Path(__file__).parent / "data" / "matrices.toml").read_text())["machine"]:
        rows = each["text"].splitlines()[1:]
        names = [row.split("\t")[0] for row in rows]
        cards = dict(zip([name for name in names if name.startswith("NIC")], each.get("cards", ()), strict=False))
        listed = "".join(f"  {name}: {card}\n" for name, card in cards.items())
        text = each["text"] + LEGEND + f"NIC Legend:\n\n{listed}" * bool(cards)
        machines[each["name"]] = each | {"text": text, "names": [cards.get(name, name) for name in names], "rows": rows}
    return machines


MACHINES = read_machines()


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_matrix_decides_nodes_and_comes_back(machine):
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


WAYS = {
    "spaces": lambda text: text.replace("\t", "    "),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "underlined": lambda text: f"\t\x1b[4mGPU0{text[5:]}".replace("Affinity\n", "Affinity\x1b[0m\n"),
    "after a prompt": lambda text: f"root@host:~# nvidia-smi topo -m\n{text}root@host:~# exit\n",
    "without a legend": lambda text: text.partition("\nLegend")[0] + text.partition("NIC Legend")[2],
}
DAMAGES = {
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "wrapped": lambda text: "\n".join(f"{line[:40]}\n{line[40:]}" for line in text.splitlines()),
    "a word processor's hyphens": lambda text: text.replace("-", "–"),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_print_it_reads_the_same(way):
    for name in (
        "HGX H100 with ten cards",
        "AMD host with four nodes a socket",
        "four cards of one node, which the tool calls far apart",
    ):
        text = MACHINES[name]["text"]
        printed = WAYS[way](text)
        assert printed != text
        assert nvidia.read_matrix(printed) == nvidia.read_matrix(text)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_text_is_refused(damage):
    with pytest.raises(TopologyError, match=r"^topo\.txt"):
        nvidia.parse(damage(MACHINES["HGX H100 with ten cards"]["text"]), file="topo.txt")


def test_a_byte_order_mark_is_skipped_and_other_encodings_are_refused(tmp_path):
    text = MACHINES["two cards under one switch"]["text"]
    (tmp_path / "topo.txt").write_text(text, encoding="utf-8-sig")
    assert topology.load(tmp_path / "topo.txt").matrix().equals(nvidia.parse(text).matrix())
    (tmp_path / "topo.txt").write_text(text, encoding="utf-16")
    with pytest.raises(TopologyError, match="UTF-8"):
        topology.load(tmp_path / "topo.txt")
