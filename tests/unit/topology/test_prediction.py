"""Predictions: overlap, the slowest rank, and several ranks."""

import itertools
from types import SimpleNamespace

import numpy
import pytest

from course.shared import cost
from course.topology.prediction import Prediction, points, predict_step, report, slowest

FIT = cost.fit([(4, 1e-3), (4_000_000, 5e-3)], 2)
BOTH = cost.fit(
    [(size, 5e-4 + cost.ring(size, ranks, 1e-4, 1e-9)) for ranks in (2, 3) for size in (4, 10**6)], [2, 2, 3, 3]
)


def predicted(**facts):
    usual = {"ranks": 4, "batch": 256, "computation_s": 0.3, "communication_s": 0.1}
    return Prediction(**{**usual, "one_images_per_s": 64 / 0.3, **facts})


def run(name="run", **result):
    return SimpleNamespace(name=name, state="done", result=result)


def computing(ranks=2, each=32, part=None, times=((0.02, 0.03), (0.02, 0.04))):
    size = {"model": "cnn", "gradient_bytes": 1_000_000, "rank_steps_s": times}
    if ranks > 1:
        size |= {"rank_steps_s": [[9, 9]] * ranks, "apart": {"rank_steps_s": times}}
    elif part:
        size |= {"part": {"of": part, "rank_steps_s": [[0.01, 0.01]]}}
    batch = each * ranks
    return run(ranks=ranks, per_rank_batch=each, sizes=[size], global_batch=batch, images_per_s=batch / 0.05)


def test_as_much_communication_as_shows_makes_a_step_longer():
    one = predicted()
    assert one.seconds == pytest.approx(0.4) and one.full_overlap_s == 0.3
    assert one.images_per_s == pytest.approx(256 / 0.4)
    assert one.efficiency == pytest.approx(0.75)
    assert "4 ranks: 400.00 ms per step (300.00 with full overlap)" in str(one)
    # Communication longer than the computation is always visible.
    assert predicted(communication_s=0.5).full_overlap_s == 0.5


def test_the_slowest_of_two_dice_and_of_what_is_drawn():
    dice = numpy.arange(1, 7)
    assert slowest([dice]) == pytest.approx(3.5)
    assert slowest([dice, dice]) == slowest([dice], 2) == pytest.approx(161 / 36)
    assert slowest([dice, dice], 1) == pytest.approx(3.5)
    assert slowest([dice], 1000) == pytest.approx(6)
    draw = numpy.random.default_rng(5)
    times = draw.lognormal(size=(5, 50)) + numpy.arange(5)[:, None] / 5
    drawn = numpy.stack([draw.choice(row, 100_000) for row in times]).max(axis=0).mean()
    assert slowest(times) == pytest.approx(drawn, rel=0.02)


def test_points_come_from_all_reduces_of_a_run():
    made = [{"size_bytes": size, "seconds": {"median": size / 1e6}} for size in (4, 8)]
    assert points(run(script="bench_allreduce.py", points=made)) == [(4, 4e-6), (8, 8e-6)]
    failed = SimpleNamespace(name="x", state="failed", result=None)
    for wrong, message in (
        (run(script="bench_p2p.py", points=made), "no all-reduce times"),
        (failed, "no result: it is failed"),
    ):
        with pytest.raises(ValueError, match=message):
            points(wrong)
    for wrong, message in ((run(ranks=2), 'with model="cnn"'), (computing(), "2 ranks need a fit")):
        with pytest.raises(ValueError, match=message):
            predict_step(wrong)


def test_a_step_is_the_slowest_in_company_and_one_message():
    one = predict_step(computing(), FIT)
    assert one.computation_s == pytest.approx((0.02 + 0.03 + 2 * 0.04) / 4)
    assert one.waiting_s == pytest.approx(one.computation_s - 0.0275)
    assert one.communication_s == pytest.approx(FIT(1_000_012))
    assert one.seconds == one.computation_s + one.communication_s and one.ranks == 2 and one.batch == 64
    assert one.one_images_per_s == pytest.approx(32 / 0.0275)
    against = predict_step(computing(), FIT, one=computing(1, 64))
    assert against.one_images_per_s == pytest.approx(64 / 0.05)


def test_more_ranks_keep_each_ones_batch_and_wait_longer():
    steps = [predict_step(computing(), BOTH, ranks) for ranks in (1, 2, 4, 8)]
    assert [one.batch for one in steps] == [32, 64, 128, 256]
    assert steps[0].communication_s == steps[0].waiting_s == 0
    assert all(a.computation_s < b.computation_s for a, b in itertools.pairwise(steps))
    assert steps[3].computation_s < 0.04  # the slowest that was ever seen
    with pytest.raises(ValueError, match="all points have 2 ranks.*another number"):
        predict_step(computing(), FIT, 4)


def test_ranks_that_share_cores_take_turns():
    two, four = (predict_step(computing(), BOTH, ranks, cores=2) for ranks in (2, 4))
    assert two == predict_step(computing(), BOTH, 2)
    assert four.computation_s == pytest.approx(2 * two.computation_s)
    assert four.waiting_s == pytest.approx(2 * two.waiting_s) and four.batch == 2 * two.batch
    assert four.communication_s == predict_step(computing(), BOTH, 4).communication_s > two.communication_s
    assert four.one_images_per_s == two.one_images_per_s  # a rank with a core of its own
    # Measurements with three ranks on two cores already include taking turns.
    three = predict_step(computing(3), BOTH, 4, cores=2)
    assert three.computation_s == pytest.approx(4 / 3 * predict_step(computing(3), BOTH, 2).computation_s)


def test_one_rank_alone_did_a_part():
    one = predict_step(computing(1, 64, part=2), FIT)
    assert one.ranks == 2 and one.batch == 64 and one.computation_s == pytest.approx(0.01)
    whole = predict_step(computing(1, 64, part=2, times=[[0.02, 0.02]]), ranks=1)
    assert whole.ranks == 1 and whole.batch == 64 and whole.seconds == pytest.approx(0.02)


def test_a_report_shows_parts_overlap_and_error():
    training = run(ranks=2, global_batch=64, images_per_s=64 / 0.04)
    one = predict_step(computing(), FIT)
    rows = report({"alone": predict_step(computing(1, 64, part=2), FIT), "company": one}, training)
    assert rows["error"][1] == pytest.approx(one.seconds / 0.04 - 1)
    assert rows["measured_ms"].tolist() == pytest.approx([40, 40])
    parts = rows.loc[1, ["computation_ms", "waiting_ms", "communication_ms"]].sum()
    assert parts == pytest.approx(rows["predicted_ms"][1])
    assert report(one, training)["name"].tolist() == ["prediction"]
    for wrong in ({"global_batch": 128}, {"ranks": 4}):
        with pytest.raises(ValueError, match="has {} {}, and ".format(*next(iter(wrong.items())))):
            report(one, run(**{**training.result, **wrong}))
