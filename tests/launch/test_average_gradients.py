"""`average_gradients.py` on real ranks: what Horovod averages is what is averaged by hand."""

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("horovod.tensorflow")

from ddl import RunFailed, launch
from ddl.analysis import descent

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("points", [64, 63])
def test_horovod_averages_like_the_maths(points, nothing_left):
    run = launch(
        "average_gradients.py", workers=2, points=points, steps=6, weight=0.5, seed=3, learning_rate=0.05, message_kib=4
    )
    data = descent.generated(points, seed=3)
    m = 0.5
    steps = [event for event in run.events() if event["event"] == "step"]
    assert [event["step"] for event in steps] == [1, 2, 3, 4, 5, 6]
    for event in steps:
        expected = descent.exchange(m, 0.05, [data[0::2], data[1::2]])
        assert event["m"] == pytest.approx(m)
        assert event["gradients"] == pytest.approx(expected.gradients)
        assert event["average"] == pytest.approx(expected.average)
        m = expected.after
        assert event["after"] == pytest.approx(m)
    # Equal shards average to the gradient of all points; with 32 and 31 points they do not.
    whole = descent.gradient(steps[0]["m"], data)
    assert (steps[0]["average"] == pytest.approx(whole)) is (points == 64)
    assert run.result["ranks"] == 2 and run.result["weights"] == pytest.approx([m, m])
    ((size, seconds),) = run.result["all_reduce_seconds"]
    assert size == 4096 and seconds > 0
    nothing_left(run)


def test_fewer_points_than_ranks_are_refused():
    with pytest.raises(RunFailed) as raised:
        launch("average_gradients.py", workers=2, points=1)
    assert "1 points are too few for 2 ranks" in raised.value.run.logs(0)
