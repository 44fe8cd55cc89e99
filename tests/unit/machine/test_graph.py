"""Ways between the parts of a machine, and what they are called."""

import math

import pytest

from course import topology
from course.machine.graph import Device, Network, Numa, NvLink, Socket, SocketLink
from course.machine.link import nvlink_gb_per_s, pcie_gb_per_s
from course.topology import Topology, TopologyError


@pytest.fixture(scope="module")
def dgx1():
    return topology.load("dgx-1")


def hops(machine, a, b):
    return [hop.kind for hop in machine.path(a, b)]


def test_pcie_figures_are_those_of_the_line_code():
    for generation, expected in {1: 4, 3: 15.754, 4: 31.508, 5: 63.015, 6: 121}.items():
        assert pcie_gb_per_s(generation, 16) == pytest.approx(expected, abs=1e-3)
    with pytest.raises(TopologyError, match="PCIe 9 x16: expected generation 1 to 6"):
        pcie_gb_per_s(9, 16)


def test_nvlinks_between_two_gpus_are_the_best_way(dgx1):
    assert hops(dgx1, "GPU0", "GPU1") == ["NV1"]
    assert dgx1.bandwidth("GPU0", "GPU1") == nvlink_gb_per_s(2) == 25
    assert dgx1.bandwidth("GPU0", "GPU3") == dgx1.bandwidth("GPU3", "GPU0") == 50
    assert (dgx1.path("GPU0", "GPU0"), dgx1.bandwidth("GPU0", "GPU0"), dgx1.kind("GPU0", "GPU0")) == ((), math.inf, "X")


def test_path_without_nvlinks_uses_pcie_and_sockets(dgx1):
    down = ["host bridge", "PCIe 3 x16", "PCIe 3 x16"]
    assert hops(dgx1, "GPU0", "GPU7") == [*reversed(down), "2×QPI", *down]
    assert dgx1.bandwidth("GPU0", "GPU7") == pytest.approx(15.754, abs=1e-3)
    ends = [(hop.start, hop.end) for hop in dgx1.path("GPU0", "GPU7")]
    assert [end for _, end in ends[:-1]] == [start for start, _ in ends[1:]]
    assert (ends[0][0], ends[-1][1]) == ("GPU0", "GPU7")
    # The way turns where two branches meet, and no third GPU passes anything on.
    assert hops(dgx1, "GPU0", "mlx5_0") == ["PCIe 3 x16"] * 2
    assert [hop.end for hop in dgx1.path("GPU0", "mlx5_1")] == ["plx0", "root0", "plx1", "mlx5_1"]
    assert dgx1.kind("GPU0", "GPU5") == "SYS"  # GPU0 – GPU4 – GPU5 are NVLinks, which no driver would go


def test_memory_of_a_numa_node_is_an_end_too(dgx1):
    assert hops(dgx1, "numa0", "GPU0") == ["host bridge", "PCIe 3 x16", "PCIe 3 x16"]
    assert dgx1.bandwidth("numa1", "GPU0") == pytest.approx(15.754, abs=1e-3)
    assert dgx1.bandwidth("numa0", "numa1") == 38.4
    with pytest.raises(TopologyError, match="no 'numa7'"):
        dgx1.path("numa7", "GPU0")


def test_nvswitches_join_gpus_at_all_their_links():
    machine = topology.load("dgx-a100")
    assert hops(machine, "GPU0", "GPU7") == ["NV12", "NV12"]
    assert machine.bandwidth("GPU0", "GPU7") == 300


def test_only_a_direct_link_between_sockets_has_a_rate():
    machine = Topology(
        "row",
        "made up",
        tuple(map(Socket, range(3))),
        tuple(Numa(n, n) for n in range(3)),
        socket_links=(SocketLink(0, 1, "UPI", 1, 20.8), SocketLink(2, 1, "UPI", 2, 10.4)),
    )
    assert hops(machine, "numa1", "numa2") == ["2×UPI"] and machine.bandwidth("numa1", "numa2") == 20.8
    assert hops(machine, "numa0", "numa2") == ["between sockets"]
    assert math.isnan(machine.bandwidth("numa0", "numa2"))


def test_what_is_not_known_is_no_number():
    machine = Topology(
        "bare",
        "made up",
        devices=(*(Device(name, "gpu") for name in "abc"), Device("r", "root"), Device("d", "gpu", under="r")),
        nvlinks=(NvLink("a", "c", 2),),
    )
    for end, kind in (("b", "?"), ("c", "NV2")):
        assert machine.kind("a", end) == kind and math.isnan(machine.bandwidth("a", end))
    assert machine.path("a", "d")[-1].start == "r"


def test_path_has_same_name_in_both_directions():
    ends = (NvLink("a", "s", 6), NvLink("b", "s", 12), NvLink("c", "s", 4, generation=3))
    machine = Topology(
        "uneven", "made up", devices=(*(Device(name, "gpu") for name in "abc"), Device("s", "nvswitch")), nvlinks=ends
    )
    for a, b, kind in (("a", "b", "NV6"), ("b", "c", "NV4"), ("a", "c", "NV4")):
        assert machine.kind(a, b) == machine.kind(b, a) == kind


def made(*devices):
    return Topology("wrong", "made up", devices=devices)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: made(Device("a", "gpu"), Device("a", "gpu")), "same name, a"),
        (lambda: made(Device("a", "gpu", under="b")), "device a refers to 'b'.*known: a"),
        (lambda: made(Device("a", "switch", "b"), Device("b", "switch", "a")), "a is under itself"),
        (lambda: topology.load("dgx-1").bandwidth("GPU0", "GPU8"), "dgx-1 has no 'GPU8'; it has: root0"),
        (lambda: NvLink("a", "a", 1), "two different ends"),
        (lambda: Network("none", 1, math.nan), "at least one card"),
    ],
)
def test_impossible_parts_and_unknown_names_are_refused(make, expected):
    with pytest.raises(TopologyError, match=expected):
        make()
