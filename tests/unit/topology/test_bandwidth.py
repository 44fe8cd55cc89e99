"""Bandwidths against their closed forms, and the tables that show them."""

import numpy as np
import pytest

from course.shared.recorded import Recorded
from course.topology.bandwidth import BUS_FACTORS, bandwidths, bus_bandwidth, pairs

KEYS = ("median", "low", "high", "least")


def seconds(median):
    return dict(zip(KEYS, (median, 0.9 * median, 1.2 * median, 0.8 * median), strict=True))


def recorded(**facts):
    return Recorded({"library": "horovod", "backend": "gloo", "hosts": 1, "history": []} | facts)


def collective(name="gloo", ranks=4, **changes):
    """A record of bench_allreduce.py on links of 1 GB/s in each direction, without latency."""
    points = [
        {
            "operation": operation,
            "size_bytes": size,
            "repeats": 9,
            "seconds": seconds(BUS_FACTORS[operation](ranks) * size / 1e9),
        }
        for operation in ("all_reduce", "broadcast", "all_gather")
        for size in (64, 4096, 2**20)
    ]
    return recorded(**{"name": name, "ranks": ranks, "transport": "loopback", "points": points} | changes)


def between(ranks=3, name="p2p"):
    """A record of bench_p2p.py: 10 µs and 2 GB/s, over shared memory 1 µs and 8 GB/s."""
    points = [
        {"path": path, "pair": [a, b], "size_bytes": size, "repeats": 9, "seconds": seconds(latency + size / rate)}
        for path, latency, rate in (("tcp", 1e-5, 2e9), ("shared_memory", 1e-6, 8e9))
        for a in range(ranks)
        for b in range(a + 1, ranks)
        for size in (4, 4096, 2**26)
    ]
    return recorded(name=name, ranks=ranks, transport="tcp: loopback; shared_memory: memory", points=points)


def test_bus_bandwidth_of_one_message():
    # 100 MB in 50 ms on 4 ranks: in an all-reduce each sends and receives 1.5 times 100 MB.
    for operation, factor in {"all_reduce": 1.5, "all_gather": 0.75, "broadcast": 1}.items():
        assert bus_bandwidth(operation, 1e8, 0.05, 4) == pytest.approx(2e9 * factor), operation
    assert bus_bandwidth("all_reduce", 1e8, 0.05, 1) == 0


def test_a_row_for_each_operation_and_size_of_each_run():
    table = bandwidths([collective("one"), collective("two", ranks=2)])
    assert len(table) == 18 and list(table["name"].unique()) == ["one", "two"]
    assert table["bus_gb_per_s"].to_numpy() == pytest.approx(np.ones(18))
    row = table[(table["operation"] == "all_reduce") & (table["size_bytes"] == 2**20)].iloc[0]
    assert row["seconds"] == pytest.approx(1.5 * 2**20 / 1e9)
    assert row["algorithm_gb_per_s"] == pytest.approx(1 / 1.5)
    assert row["seconds_least"] < row["seconds_low"] < row["seconds"] < row["seconds_high"]
    assert table.readable()["time, µs (quartiles)"][[0, 2]].tolist() == ["0.1 (0.1–0.1)", "1,573 (1,416–1,887)"]
    assert set(bandwidths(collective(), ["broadcast"])["operation"]) == {"broadcast"}
    with pytest.raises(ValueError, match="none of these runs measured reduce"):
        bandwidths(collective(), ["reduce"])
    assert "loopback" in repr(table)


def test_a_row_for_each_path_between_each_two_ranks():
    table = pairs(between(ranks=3))
    assert [(row["path"], row["from"], row["to"]) for row in table.to_dict("records")] == [
        (path, *pair) for path in ("tcp", "shared_memory") for pair in ((0, 1), (0, 2), (1, 2))
    ]
    tcp = table.iloc[0]
    assert tcp["latency_s"] == pytest.approx(1e-5, rel=1e-3)
    assert tcp["gb_per_s"] == pytest.approx(2, rel=1e-3) and tcp["best_bytes"] == 2**26
    assert "shared_memory: memory" in repr(table)
