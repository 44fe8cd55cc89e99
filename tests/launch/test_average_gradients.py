"""`average_gradients.py` on real ranks: what Horovod averages is what is averaged by hand."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("horovod.tensorflow")

from course.gradients import descent
from ddl import RunFailed, launch

pytestmark = pytest.mark.nightly("source_code/course/gradients/scripts/average_gradients.py")


@pytest.mark.parametrize("points", [64, 63])
def test_horovod_averages_like_the_maths(points, nothing_left):
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
    nothing_left(run)


def test_fewer_points_than_ranks_are_refused():
    with pytest.raises(RunFailed) as raised:
        launch("average_gradients.py", workers=2, points=1)
    assert "--points 1 is too few for 2 ranks" in raised.value.run.logs(0)


AGGREGATED = """
import json
import horovod.tensorflow as hvd, tensorflow as tf
hvd.init()
weights = []
for options in ({}, {"average_aggregated_gradients": True}):
    w = tf.Variable(0.0)
    sgd = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), backward_passes_per_step=2, **options)
    for gradient in (1.0, 5.0):
        with tf.GradientTape() as tape:
            loss = gradient * w
        sgd.minimize(loss, [w], tape=tape)
        weights.append(float(w))
print(json.dumps(weights))
"""


def test_horovod_adds_the_gradients_of_passes_unless_it_is_told_to_average_them():
    done = subprocess.run([sys.executable, "-c", AGGREGATED], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout.splitlines()[-1]) == [0.0, -6.0, 0.0, -3.0]
