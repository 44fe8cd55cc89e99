"""`average_gradients.py` on real ranks: what Horovod averages is what is averaged by hand."""

import pytest

from course.gradients import descent
from ddl import launch

pytestmark = pytest.mark.nightly("source_code/course/gradients/scripts/average_gradients.py")


@pytest.mark.parametrize("points", [64, 63])
def test_horovod_averages_gradients(points, nothing_left):
    run = launch(
        "average_gradients.py", workers=2, points=points, steps=6, weight=0.5, seed=3, learning_rate=0.05, message_kib=4
    )
    data = descent.generated(points, seed=3)
    w = 0.5
    steps = [event for event in run.events() if event["event"] == "step"]
    assert [event["step"] for event in steps] == [1, 2, 3, 4, 5, 6]
    for event in steps:
        expected = descent.exchange(w, 0.05, [data[0::2], data[1::2]])
        assert event["w"] == pytest.approx(w)
        assert event["gradients"] == pytest.approx(expected.gradients)
        assert event["average"] == pytest.approx(expected.average)
        w = expected.after
        assert event["after"] == pytest.approx(w)
    # Equal shards average to the gradient of all points; with 32 and 31 points they do not.
    whole = descent.gradient(steps[0]["w"], data)
    assert (steps[0]["average"] == pytest.approx(whole)) is (points == 64)
    assert run.result["ranks"] == 2 and run.result["weights"] == pytest.approx([w, w])
    ((size, seconds),) = run.result["all_reduce_seconds"]
    assert size == 4096 and seconds > 0
