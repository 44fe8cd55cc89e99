"""The benchmarks on real ranks: every point is there, and what cannot be measured is said."""

import pytest

from course.topology.plot_bandwidth import plot_bandwidth
from course.topology.plot_fit import plot_fit
from course.topology.prediction import fit_runs
from ddl import launch

pytestmark = pytest.mark.nightly("source_code/*bench*", "source_code/*allreduce*")

SIZES = [4, 12, 65536]
FEW = {"sizes": SIZES, "repeats": 4}
COMMON = set("script argv config transport hosts ranks threads_per_rank points history versions hardware".split())


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


@pytest.fixture
def measured(nothing_left):
    def run(script):
        run = launch(script, workers=2, oversubscribe=True, **FEW)
        result = run.result
        assert COMMON < set(result) and result["script"] == script
        assert (result["ranks"], result["hosts"]) == (2, 1)
        assert result["transport"].startswith("loopback")
        assert [point["size_bytes"] for point in result["points"]] == SIZES
        check_times(result["points"], 4)
        return run

    return run


def test_all_reduces_and_bare_messages_of_two_ranks(measured):
    run, bare = measured("bench_allreduce.py"), measured("bench_p2p.py")
    check_events(run, 3 * len(SIZES))
    check_events(bare, len(SIZES))
    assert run.result["backend"] == "gloo" and {tuple(point["pair"]) for point in bare.result["points"]} == {(0, 1)}
    assert "gloo, 2 ranks" in plot_bandwidth(run).alt
    fit = fit_runs([run])
    assert str(fit) in plot_fit(run, fit, bare).alt
