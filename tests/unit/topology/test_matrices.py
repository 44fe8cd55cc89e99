"""Matrices as published machines print them, in all the ways that they are printed and pasted."""

from dataclasses import dataclass, field

import pytest

from course import topology
from course.links.plot_topology import plot_topology
from course.topology import TopologyError, nvidia

PLAIN = ("CPU Affinity",)
NEW = ("CPU Affinity", "NUMA Affinity")
NEWEST = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


@dataclass
class Machine:
    """A machine's matrix, and what is to be read from it."""

    names: tuple
    kinds: str  # rows of the cells below the diagonal: what stands above is the same
    affinity: tuple  # of each GPU: processor threads and NUMA nodes, as they are printed
    numas: tuple  # node of each device, None where it cannot be told
    columns: tuple = NEW
    legend: tuple = ()  # what the network cards are called
    switch: bool = False
    notes: tuple = ()
    fits: bool = True  # a tree
    gpus: int = field(init=False)

    def __post_init__(self):
        self.gpus = len([name for name in self.names if name.startswith("GPU")])

    @property
    def called(self):
        return (*self.names[: self.gpus], *(self.legend or self.names[self.gpus :]))

    def cells(self):
        below = [line.split() for line in self.kinds.strip().splitlines()] if self.kinds else []
        below = [[], *below]
        return {
            (a, b): "X" if a == b else below[max(i, j)][min(i, j)]
            for i, a in enumerate(self.called)
            for j, b in enumerate(self.called)
        }

    def text(self):
        cells, lines = self.cells(), ["\t".join(["", *self.names, *self.columns])]
        for at, (name, row) in enumerate(zip(self.names, self.called, strict=True)):
            line = [name, *(" X " if other == row else cells[row, other] for other in self.called)]
            if at < self.gpus:
                line += [*self.affinity[at][: len(self.columns)]]
                line += ["", "N/A"] * (self.columns == NEWEST)
            lines.append("\t".join(line))
        lines += ["", "Legend:", "", "  X    = Self", "  SYS  = Connection traversing PCIe", ""]
        if self.legend:
            cards = zip(self.names[self.gpus :], self.legend)
            lines += ["NIC Legend:", "", *(f"  {name}: {card}" for name, card in cards)]
        return "\n".join(lines) + "\n"


def gpus(count):
    return tuple(f"GPU{at}" for at in range(count))


def every(count, kind):
    return "\n".join(" ".join([kind] * at) for at in range(1, count))


def rows(*blocks):
    return "\n".join(blocks)


MACHINES = {
    "four cards of one node, which the tool calls far apart": Machine(
        gpus(4),
        every(4, "SYS"),
        (("0-15", "0"),) * 4,
        (0,) * 4,
        notes=("GPU0 and GPU1 are SYS apart, and in the tree NODE: 6 pairs of the matrix fit no tree",),
        fits=False,
    ),
    "four cards of a virtual machine that tells nothing": Machine(
        gpus(4),
        every(4, "SYS"),
        (("N/A", "N/A"),) * 4,
        (None,) * 4,
        notes=("does not say which NUMA node GPU0, GPU1, GPU2, GPU3 are near to",),
    ),
    "four cards whose processor threads alone are told": Machine(
        gpus(4), every(4, "SYS"), (("0-15",),) * 4, (0,) * 4, PLAIN, notes=("they are counted from 0",), fits=False
    ),
    "threads told, nodes N/A": Machine(
        gpus(4), "PHB\nSYS SYS\nSYS SYS PHB", (("0-9,20-29", "N/A"),) * 2 + (("10-19,30-39", "N/A"),) * 2, (0, 0, 1, 1)
    ),
    "two sockets before there was NODE": Machine(
        gpus(4), "PIX\nSOC SOC\nSOC SOC PIX", (("0-7,16-23",),) * 2 + (("8-15,24-31",),) * 2, (0, 0, 1, 1), PLAIN
    ),
    "a workstation with one card": Machine(gpus(1), "", (("0-23", "0"),), (0,), NEWEST),
    "two cards under one switch": Machine(gpus(2), "PXB", (("0-31", "1"),) * 2, (1, 1)),
    "two cards with a bridge": Machine(
        gpus(2), "NV4", (("0-15", "0"), ("16-31", "1")), (0, 1), notes=("may pass through an NVSwitch",)
    ),
    "two of three links each, in a ring of four": Machine(
        gpus(4), "NV2\nSYS NV2\nNV2 SYS NV2", (("0-7", "0"),) * 4, (0,) * 4, fits=False
    ),
    "DGX-2": Machine(
        gpus(16),
        every(16, "NV6"),
        (("0-23,48-71", "0"),) * 8 + (("24-47,72-95", "1"),) * 8,
        (0,) * 8 + (1,) * 8,
        switch=True,
    ),
    "AMD host with four nodes a socket": Machine(
        (*gpus(4), "mlx5_0", "mlx5_1"),
        rows(every(4, "NV4"), "SYS PXB SYS SYS", "SYS SYS SYS PXB SYS"),
        (("48-63,176-191", "3"), ("16-31,144-159", "1"), ("112-127,240-255", "7"), ("80-95,208-223", "5")),
        (3, 1, 7, 5, 1, 5),
    ),
    "HGX H100 with ten cards": Machine(
        gpus(8) + tuple(f"NIC{at}" for at in range(10)),
        rows(
            every(8, "NV18"),
            *(
                " ".join(
                    ["PIX" if at == card else "NODE" if at // 4 == card // 4 else "SYS" for at in range(8)]
                    + ["NODE" if other // 4 == card // 4 else "SYS" for other in range(card)]
                )
                for card in range(8)
            ),
            " ".join(["SYS"] * 4 + ["NODE"] * 4 + ["SYS"] * 4 + ["NODE"] * 4),
            " ".join(["SYS"] * 4 + ["NODE"] * 4 + ["SYS"] * 4 + ["NODE"] * 4 + ["PIX"]),
        ),
        (("0-47,96-143", "0"),) * 4 + (("48-95,144-191", "1"),) * 4,
        (0,) * 4 + (1,) * 4 + (0,) * 4 + (1,) * 6,
        NEWEST,
        (*(f"mlx5_{at}" for at in range(8)), "mlx5_bond_0", "rocep65s0"),
        switch=True,
    ),
    "cards that are near to no GPU have no node": Machine(
        ("GPU0", "mlx5_0", "mlx5_1", "mlx5_2"),
        "SYS\nSYS PIX\nPHB SYS SYS",
        (("0-31", "0"),),
        (0, None, None, 0),
        notes=("which NUMA node mlx5_0, mlx5_1 are near to",),
    ),
    "a card that is near to another card only": Machine(
        ("GPU0", "GPU1", "NIC0", "NIC1"), "SYS\nNODE SYS\nNODE SYS PIX", (("0-7", "2"), ("8-15", "3")), (2, 3, 2, 2)
    ),
    "Grace Blackwell, whose GPUs' memory is nodes as well": Machine(
        (*gpus(4), "mlx5_0"),
        rows(every(4, "NV18"), "SYS SYS NODE NODE"),
        (("0-71", "0,2-17"),) * 2 + (("72-143", "1,18-33"),) * 2,
        (0, 0, 1, 1, 1),
        switch=True,
    ),
    "GB200, whose GPUs' first nodes are in another column": Machine(
        gpus(4),
        every(4, "NV18"),
        (("0-71", "0,3-9,11-17"),) * 2 + (("72-143", "1,19-25,27-33"),) * 2,
        (0, 0, 1, 1),
        NEWEST,
        switch=True,
    ),
    "two columns run together": Machine(
        gpus(2),
        "SYS",
        (("0N/A", "0"), ("0N/A", "1")),
        (0, 1),
        notes=("CPU Affinity of GPU1 is “0N/A”, which is not a list of numbers: the column is ignored",),
    ),
    "a GPU that is near to all eight nodes": Machine(gpus(1), "", (("0-63", "0-7"),), (None,)),
    "Grace Hopper with its GPU's memory": Machine(gpus(1), "", (("0-71", "0-8"),), (0,), NEWEST),
    "a GPU that is near to two nodes": Machine(
        gpus(2), "SYS", (("0-63", "0-1"), ("0-31", "0")), (None, 0), notes=("which NUMA node GPU0 is near to",)
    ),
    "chips that are joined by C2C": Machine(gpus(2), "C2C", (("0-71", "0"), ("72-143", "1")), (0, 1), fits=False),
}


@pytest.fixture(params=MACHINES, ids=str)
def machine(request):
    return MACHINES[request.param]


def test_the_matrix_decides_nodes_and_comes_back(machine):
    made = nvidia.parse(machine.text())
    assert {name: made.numa_of(name) for name in machine.called} == dict(
        zip(machine.called, machine.numas, strict=True)
    )
    assert {numa.number for numa in made.numas} == set(machine.numas) - {None}
    cells = {pair: "SYS" if kind == "SOC" else kind for pair, kind in machine.cells().items()}
    assert {pair: made.kind(*pair) for pair in cells} == cells
    assert nvidia.read_matrix(made.matrix_text()).kinds == cells
    assert len(made.of("nvswitch")) == machine.switch
    notes = " ".join(made.notes)
    assert all(note in notes for note in machine.notes), notes
    assert ("fit no tree" in notes) != machine.fits, notes
    assert all(device.name in str(made) for device in made.devices if device.kind != "nvswitch")
    if machine.legend or None in machine.numas:
        plot_topology(made)


def cut(text, width):
    """The text as it stands in a terminal of so many columns."""
    return "\n".join(
        line[at : at + width] for line in text.expandtabs(8).splitlines() for at in range(0, max(len(line), 1), width)
    )


WAYS = {
    "spaces": lambda text: text.replace("\t", "    "),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: f"\ufeff{text}",
    "underlined": lambda text: f"\t\x1b[4mGPU0{text[5:]}".replace("Affinity\n", "Affinity\x1b[0m\n"),
    "escape bytes shown": lambda text: f"\t^[[4mGPU0{text[5:]}".replace("Legend", r"\033[0mLegend"),
    "escape bytes replaced": lambda text: f"\t\ufffd[4mGPU0{text[5:]}".replace("X ", "␛[1mX←[0m "),
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "quoted, with blanks": lambda text: "".join(f" > > {line}\n" for line in text.splitlines()),
    "after a prompt": lambda text: f"root@host:~# nvidia-smi topo -m\n{text}root@host:~# exit\n",
    "between fences": lambda text: f"GPU0 of our host:\n\n```\n{text}```\nThanks, GPU7\n",
    "every other line blank": lambda text: text.replace("\n", "\n\n"),
    "blanks that do not break": lambda text: text.replace("\t", "\xa0 \xa0"),
    "without a legend": lambda text: text.partition("\nLegend")[0] + text.partition("NIC Legend")[2],
    "wrapped": lambda text: "\n".join(
        line
        if len(line) < 40
        else f"{line[:30].rpartition(chr(9))[0]}\n\t{line[30 - len(line[:30].rpartition(chr(9))[2]) :]}"
        for line in text.splitlines()
    ),
    "wrapped before the affinity": lambda text: (
        text.replace("\tCPU Aff", "\n\tCPU Aff").replace("\t0-", "\n0-").replace("\t48-", "\n48-")
    ),
    "cut at 61 columns": lambda text: cut(text, 61),
    "a word processor's hyphens": lambda text: text.replace("-", "–"),
    "a frame": lambda text: text.replace("\t", " │ "),
    "a page's source": lambda text: f"<pre>{text}</pre>".replace("\t", "&nbsp;\t").replace("\n", "<br/>\n"),
    "a table": lambda text: "".join(f"| {' | '.join(line.split(chr(9)))} |\n" for line in text.splitlines()).replace(
        "\n", "\n|---|---|\n", 1
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_however_it_was_pasted_it_reads_the_same(way):
    for name in (
        "HGX H100 with ten cards",
        "AMD host with four nodes a socket",
        "four cards of one node, which the tool calls far apart",
    ):
        text = MACHINES[name].text()
        pasted = WAYS[way](text)
        assert pasted != text
        assert nvidia.read_matrix(pasted) == nvidia.read_matrix(text)


def test_files_of_other_editors_are_read(tmp_path):
    text = MACHINES["two cards under one switch"].text()
    for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"):
        (tmp_path / "topo.txt").write_bytes(text.encode(encoding))
        assert topology.load(tmp_path / "topo.txt").matrix().equals(nvidia.parse(text).matrix())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xff\xfeG", "topo.txt: this is not text in UTF-8 or UTF-16"),
        (b"\xfc\x80\x80", "topo.txt: this is not text in UTF-8 or UTF-16"),
        (b"", "topo.txt: it has no heading of a matrix"),
        (b"\tGPU0\tCPU Affinity\nGPU0\t X \t0-99999999999\n", "line 2: '0-99999999999' has numbers above 1,048,575"),
        (b"No devices were found\n", "topo.txt: it has no heading of a matrix"),
        (b"\tNIC0\tNIC1\nNIC0\t X \tPIX\nNIC1\tPIX\t X \n", "topo.txt: it has no heading of a matrix"),
        (
            b"\tGPU0\tGPU1\nGPU0\t X \tOK\nGPU1\tOK\t X \n",
            "line 2: OK is printed by `nvidia-smi topo -p2p`; only the matrix",
        ),
        (
            b"\tGPU0\tNIC8NIC9\nGPU0\t X \tPIX\tPIX\nNIC8\tPIX\t X \tPIX\nNIC9\tPIX\tPIX\t X \n",
            "line 1: NIC8NIC9 in the heading is two devices' names",
        ),
    ],
)
def test_what_is_no_matrix_is_named(tmp_path, data, expected):
    file = tmp_path / "topo.txt"
    file.write_bytes(data)
    with pytest.raises(TopologyError, match=expected):
        topology.load(file)
