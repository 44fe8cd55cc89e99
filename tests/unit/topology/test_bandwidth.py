"""The figure of all-reduces against closed forms."""

import pytest

from course.shared.recorded import Recorded
from course.topology.plot_bandwidth import bus_bandwidth, plot_bandwidth


def measured(ranks):
    """Return a run of bench_allreduce.py on links of 1 GB/s in each direction, without latency."""
    points = [
        {"size_bytes": size, "repeats": 9, "seconds": {"median": median, "low": 0.9 * median, "high": 1.2 * median}}
        for size in (64, 4096, 2**20)
        for median in [2 * (ranks - 1) / ranks * size / 1e9 or 1e-6]
    ]
    facts = {"script": "bench_allreduce.py", "backend": "gloo", "transport": "loopback", "history": []}
    return Recorded({"name": "all-reduces", "ranks": ranks, "points": points, **facts})


def test_bus_bandwidth_of_one_message():
    # 100 MB in 50 ms on 4 ranks: each sends and receives 1.5 times 100 MB.
    assert bus_bandwidth(1e8, 0.05, 4) == pytest.approx(3e9)
    assert bus_bandwidth(1e8, 0.05, 1) == 0


def test_figure_has_times_and_bus_bandwidths():
    figure = plot_bandwidth(measured(4))
    time, speed = (panel.lines[0].get_ydata() for panel in figure.axes)
    assert time == pytest.approx([9.6e-8, 6.144e-6, 1.572864e-3]) and speed == pytest.approx([1e9] * 3)
    assert "gloo, 4 ranks" in figure.alt and "1.57 ms for 1 MiB, at best 1 GB/s" in figure.alt
    assert not plot_bandwidth(measured(1)).axes[1].lines
