"""Recorded machines, kinds of links, and the command line."""

from pathlib import Path

import pytest

from course import topology
from course.machine import link, recorded_machines
from course.topology import TopologyError
from ddl import cli

DATA = Path(__file__).parent / "data"

SERVER = (DATA / "server.toml").read_text()


def read(text):
    return recorded_machines.parse(text, "server", "server.toml")


def test_a_server_is_read():
    server = read(SERVER)
    assert [(n.memory_bytes, n.memory_gb_per_s) for n in server.numas] == [(2**32, 20)] * 2
    assert [(c.number, c.numa, c.threads) for c in server.cores] == [
        (0, 0, (0, 4)),
        (1, 0, (1, 5)),
        (2, 1, (2, 6)),
        (3, 1, (3, 7)),
    ]
    assert [cache.cores for cache in server.caches] == [(0, 1), (2, 3)]
    assert [gpu.width for gpu in server.gpus] == [16, 8]
    assert server.network.gb_per_s == 2.5
    assert server.sources == ("made up",)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("cores = 4", "cores = ", "not TOML.*line 8"),
        ('title = "A server"', "", "the file lacks title"),
        ("cores = 4", "cores = -4", "socket 1: cores = -4 is below 0"),
        ('under = "root0" }', 'under = "root9" }', "device GPU0 refers to 'root9'"),
        ('b = ["GPU1"]', 'b = "GPU1"', "nvlink 1: b = 'GPU1' is not of type list"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(old, new, expected):
    assert old in SERVER
    with pytest.raises(TopologyError, match=expected) as raised:
        read(SERVER.replace(old, new, 1))
    assert str(raised.value).startswith("server.toml: ")


def test_every_recorded_machine_can_be_used():
    for machine in map(topology.load, topology.names()):
        assert machine.title and machine.sources and machine.network
        assert machine.gpus and machine.cores and machine.title in str(machine)
        for a in machine.gpus:
            for b in machine.gpus:
                assert machine.bandwidth(a.name, b.name) == machine.bandwidth(b.name, a.name) > 0


def test_load_by_path_and_unknown_name(tmp_path):
    (tmp_path / "mine.toml").write_text(SERVER)
    assert topology.load(tmp_path / "mine.toml").name == "mine"
    with pytest.raises(TopologyError, match="recorded topology.*dgx-1, .*: did you mean 'dgx-1'"):
        topology.load("dgx-9")


def test_links_have_figures_per_direction_and_sources():
    figures = {row["link"]: row["gb_per_s"] for row in topology.links()}
    assert figures["PCIe 5 x16"] == pytest.approx(link.pcie_gb_per_s(5, 16), abs=1e-3)
    assert figures["NVLink 4, an H100's 18 links"] == 18 * link.nvlink_gb_per_s(4) == 450
    assert figures["InfiniBand NDR, 400 Gbit/s"] == 50
    for row in topology.links():
        assert row["gb_per_s"] > 0 and row["group"]
        assert row["confirmed"] == ("no source" not in row["source"])
    with pytest.raises(TopologyError, match="NVLink 9: generations 1, 2, 3, 4, 5 are known"):
        link.nvlink_gb_per_s(9)


def test_the_command_line_prints_trees_matrices_and_figures(capsys, tmp_path):
    assert cli.main(["topology", "dgx-1"]) == 0
    assert "GPU GPU7  Tesla V100-SXM2-16GB, PCIe 3 x16: 15.75 GB/s" in capsys.readouterr().out
    figure = tmp_path / "figure.svg"
    assert cli.main(["topology", "dgx-1", "--matrix", "--figure", str(figure)]) == 0
    assert "GPU0\t X \tNV1\tNV1\tNV2" in capsys.readouterr().out
    assert "<svg" in figure.read_text()
    assert cli.main(["topology"]) == 0
    assert "measured here by" in capsys.readouterr().out
