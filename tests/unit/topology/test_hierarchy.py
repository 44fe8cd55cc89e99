"""All-reduce over hosts: arithmetic against counting, the table and the figure."""

import pytest

from course.shared.bench import FLAT, HIERARCHICAL, VARIANTS, link_bytes
from course.shared.recorded import Recorded, recorded
from course.topology.hierarchy import gain, variants
from course.topology.plot_hierarchy import plot_variants


def counted(hosts, each, size):
    """Walk a ring: bytes that leave host 0, each rank sending 2 (N − 1) pieces to its right."""
    ranks = hosts * each
    leaving = sum(sender // each == 0 and (sender + 1) % ranks // each != 0 for sender in range(ranks))
    return leaving * 2 * (ranks - 1) * size / ranks


@pytest.mark.parametrize("hosts, each", [(1, 4), (2, 1), (2, 2), (2, 8), (3, 2), (16, 8)])
def test_traffic_of_a_ring_is_that_of_its_hops_between_hosts(hosts, each):
    assert link_bytes(FLAT, 1e6, hosts, each) == pytest.approx(counted(hosts, each, 1e6))


@pytest.mark.parametrize("hosts, each", [(2, 2), (3, 2), (16, 8)])
def test_in_a_hierarchy_each_host_sends_what_a_ring_of_hosts_would(hosts, each):
    """n rings of H ranks, each for 1/n of the message."""
    rings = each * link_bytes(FLAT, 1e6 / each, hosts, 1)
    assert link_bytes(HIERARCHICAL, 1e6, hosts, each) == pytest.approx(rings)


@pytest.fixture
def run():
    def point(variant, size, seconds):
        ratio, expected = size / 1e8 / seconds, link_bytes(variant, size, 2, 2)
        return {
            "variant": variant,
            "size_bytes": size,
            "repeats": 5,
            "seconds": {"median": seconds, "low": 0.9 * seconds, "high": 1.1 * seconds},
            "faster": {"median": ratio, "low": 0.95 * ratio, "high": 1.05 * ratio},
            "link_bytes": {"counted": 1.05 * expected, "expected": expected},
        }

    points = [
        point(variant, size, size * each)
        for size, slow in ((10**4, 2e-8), (10**6, 0.8e-8), (10**7, 1.02e-8))
        for variant, each in ((FLAT, 1e-8), (HIERARCHICAL, slow))
    ]
    facts = {"hosts": 2, "rate_mbit": 1000, "transport": "eth0", "finished": "2026-11-21T12:00:00"}
    hardware = {"cores": 2, "cpu": "a processor"}
    return Recorded({"name": "two hosts", "ranks": 4, **facts, "hardware": hardware, "points": points})


def test_a_table_has_a_row_for_each_size_and_variant(run):
    table = variants(run)
    assert len(table) == 6
    row = table.iloc[3]  # hierarchical, 1 MB
    assert (row["variant"], row["size_bytes"], row["repeats"]) == ("hierarchical", 10**6, 5)
    assert row["milliseconds"] == pytest.approx(8) and row["faster"] == pytest.approx(1.25)
    assert (row["counted_mb"], row["expected_mb"]) == (pytest.approx(1.05), pytest.approx(1.0))
    assert list(table["verdict"]) == ["", "slower", "", "faster", "", "not decided"]
    assert "4 ranks on 2 hosts, eth0, recorded on 2 cores of a processor" in repr(table) and "7.2–8.8" in repr(table)
    picture = plot_variants([run, run])
    assert len(picture.axes) == 4 and "hierarchical 0.98 times as fast" in picture.alt
    with pytest.raises(ValueError, match="no runs"):
        plot_variants([])


def test_counted_bytes_match_formula():
    measured = recorded("two-hosts")
    assert [run.result["rate_mbit"] for run in measured] == [0, 1000, 100]
    for run in measured:
        assert run.result["hardware"]["cpu"] and "/" not in " ".join(run.result["argv"])
        for point in run.result["points"][-len(VARIANTS) :]:  # TCP's headers and acknowledgements are some percent
            counted = point["link_bytes"]
            assert 0.98 < counted["counted"] / counted["expected"] < 1.15, point["variant"]


def test_gain_in_bytes_fades_with_the_hosts():
    assert gain(2, 2) == pytest.approx(1.5) and gain(32, 8) == pytest.approx(1.03, abs=0.005)
    for hosts, ranks in ((2, 4), (8, 8), (128, 2)):
        assert gain(hosts, ranks) == pytest.approx((hosts * ranks - 1) / (ranks * (hosts - 1)))
