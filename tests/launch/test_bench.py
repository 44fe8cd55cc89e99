"""The benchmarks on real ranks: every point is there, and what cannot be measured is said."""

import pytest

from course.topology.bandwidth import bandwidths
from course.topology.plot_bandwidth import plot_bandwidth
from ddl import launch

pytestmark = pytest.mark.nightly("source_code/*bench*", "source_code/*allreduce*")

SIZES = [4, 12, 65536]
FEW = {"sizes": SIZES, "repeats": 4}
COMMON = set("script argv config library backend transport hosts ranks threads_per_rank points history".split())
COMMON |= {"versions", "hardware"}


def check_times(points, repeats):
    for point in points:
        seconds = point["seconds"]
        assert point["repeats"] == repeats
        assert 0 < seconds["least"] <= seconds["low"] <= seconds["median"] <= seconds["high"]
        assert seconds["high"] < 60


def check_events(run, steps):
    events = [event for event in run.events() if event["event"] in ("start", "step")]
    assert events[0]["steps"] == steps
    assert [event["step"] for event in events[1:]] == list(range(1, steps + 1))
    assert all(event["size_bytes"] for event in events[1:])


@pytest.mark.parametrize(
    "cluster, library, backend", [("horovod", "horovod", "gloo"), ("multi_worker", "tf.distribute", "grpc ring")]
)
def test_collectives_of_two_ranks(cluster, library, backend, nothing_left):
    run = launch("bench_allreduce.py", workers=2, cluster=cluster, oversubscribe=True, **FEW)
    result = run.result
    assert COMMON < set(result) and result["script"] == "bench_allreduce.py"
    assert (result["library"], result["backend"]) == (library, backend)
    assert (result["ranks"], result["hosts"]) == (2, 1)
    assert result["transport"].startswith("loopback")
    # Each of two ranks brings a whole number to an all-gather: 8 bytes are the fewest.
    assert [(point["operation"], point["size_bytes"]) for point in result["points"]] == [
        *((operation, size) for operation in ("all_reduce", "broadcast") for size in SIZES),
        ("all_gather", 8),
        ("all_gather", 65536),
    ]
    check_times(result["points"], 4)
    check_events(run, 3 * 8)
    assert len(bandwidths(run)) == 8 and "all_gather" in plot_bandwidth(run).alt
