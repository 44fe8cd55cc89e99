"""The experiment: predict trainings on two and on four real ranks, and run them."""

import math

import numpy
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("horovod.tensorflow")

from course.links import prediction
from course.shared import cost
from ddl import launch

pytestmark = pytest.mark.nightly(
    "source_code/course/links/prediction.py", "source_code/course/workers/scripts/step_times.py"
)

STEPS = 20
TWO = {"workers": 2, "threads": 1, "oversubscribe": True}


def test_a_step_is_predicted_run_and_reported(nothing_left):
    alone = launch("step_times.py", workers=1, threads=1, model="cnn", steps=STEPS)
    company = launch("step_times.py", model="cnn", steps=STEPS, **TWO)
    bench, third = (
        launch("bench_allreduce.py", operations="all_reduce", sizes=[4, 16384, 1048576], **TWO | {"workers": ranks})
        for ranks in (2, 3)
    )
    training, larger = (
        launch(
            "train_cifar.py",
            recipe="batch_norm",
            global_batch=32 * ranks,
            steps=4 * STEPS,
            test_samples=100,
            data_set="synthetic",
            train_samples=2048,
            **TWO | {"workers": ranks},
        )
        for ranks in (2, 4)
    )
    for run in (alone, company, bench, third, training, larger):
        nothing_left(run)

    # What was measured is the training's own step.
    size = company.result["sizes"][0]
    assert size["parameters"] == training.result["parameters"]
    assert size["gradient_bytes"] == 4 * size["parameters"] and size["all_reduces"] == 1
    for steps in (size["rank_steps_s"], size["apart"]["rank_steps_s"]):
        assert [len(row) for row in steps] == [STEPS, STEPS] and min(map(min, steps)) > 0
    assert alone.result["sizes"][0]["part"]["of"] == 2

    fit = cost.fit(prediction.points(bench), 2)
    assert fit.alpha_s > 0 and len(fit.seconds) == 3
    predicted = {
        "one rank alone": prediction.predict_step(alone, fit),
        "ranks in company": prediction.predict_step(company, fit, one=alone),
    }
    for one in predicted.values():
        assert 0 < one.full_overlap_s <= one.seconds <= one.no_overlap_s < math.inf and one.batch == 64
        assert one.efficiency_no_overlap <= one.efficiency <= one.efficiency_full_overlap
    rows = prediction.report(predicted, training)
    in_turns = prediction.report({"ranks in company, in turns": predicted["ranks in company"]}, company)

    # Of four ranks nothing has been measured before: what latency is paid once is told from two numbers of ranks.
    both = prediction.fit_runs([bench, third])
    assert set(both.ranks) == {2, 3} and both.operation_s + both.alpha_s > 0
    cores = company.result["hardware"]["cores"]
    four = prediction.predict_step(company, both, 4, one=alone, cores=cores)
    assert four.batch == larger.result["global_batch"] == 128
    assert four.communication_s == pytest.approx(both(company.result["sizes"][0]["gradient_bytes"] + 12, 4))
    turns = max(4 / cores, 1) / max(2 / cores, 1)
    two = predicted["ranks in company"]
    assert four.computation_s - four.waiting_s == pytest.approx(turns * (two.computation_s - two.waiting_s))
    extrapolated = prediction.report({"from two and three ranks": four}, larger)

    # How far off it is depends on what else the machine does.
    for table in (rows, in_turns, extrapolated):
        assert numpy.isfinite(table[["predicted_ms", "measured_ms", "error"]].to_numpy()).all()
