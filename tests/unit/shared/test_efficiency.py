"""Scaling, step times and break-even, against numbers computed by hand."""

import math
from types import SimpleNamespace

import pytest

from course.shared.bench import PARTS
from course.shared.efficiency import payoff, published, samples_processed, scaling, tuning

HARDWARE = {"host": "here", "cpu": "a processor", "cores": 4, "memory_gib": 8.0, "gpus": []}


def run(ranks, images_per_s, threads=1, batch=64, name=None, **facts):
    result = {"script": "train.py", "ranks": ranks, "threads_per_rank": threads, "images_per_s": images_per_s}
    result |= {"global_batch": batch, "per_rank_batch": batch // ranks, "parameters": 1000, "hardware": HARDWARE}
    return SimpleNamespace(name=name or f"{ranks} × {threads}", result=result | facts, state="done")


@pytest.mark.parametrize(
    "samples, batch, ranks, expected",
    [(60_000, 2048, 1, 59_392), (60_000, 2048, 8, 49_152), (60_000, 4096, 8, 32_768), (64, 8, 8, 64), (65, 8, 8, 64)],
)
def test_epoch_counts_whole_steps(samples, batch, ranks, expected):
    assert samples_processed(samples, batch, ranks) == expected
    for wrong, message in (((60_000, 8192, 8), "65,536 per step, more than all 60,000"), ((10, 1, 0), "ranks=0")):
        with pytest.raises(ValueError, match=message):
            samples_processed(*wrong)


def test_every_published_figure_is_computed_from_its_throughput():
    table = published()
    assert table["ranks"].tolist() == [2, 4, 8]
    # By hand: 60,000 pictures in steps of 2,048 a GPU are 29, 14, 7 and 3 whole steps.
    one = 71149 * 29 * 2048
    for (_, row), speed, whole in zip(table.iterrows(), (125206, 253439, 489929), (14, 7, 3), strict=True):
        assert abs(row["as_counted_percent"] - row["stated_percent"]) < 1.5
        right = speed * whole * row["ranks"] * 2048 / one / row["ranks"]
        assert row["computed_percent"] == pytest.approx(100 * right)


def test_scaling_compares_with_one_rank_and_with_equal_hardware():
    runs = [run(1, 100), run(2, 190), run(2, 150), run(2, 170), run(1, 200, threads=2)]
    rows = {(row["ranks"], row["threads"]): row for row in scaling(runs).to_dict("records")}
    two = rows[2, 1]
    assert two["images_per_s"] == 170 and two["runs"] == 3 and two["cores"] == 2
    assert two["speedup"] == pytest.approx(1.7) and two["efficiency"] == pytest.approx(0.85)
    assert two["equal_hardware"] == pytest.approx(0.85)
    assert rows[1, 1]["efficiency"] == rows[1, 1]["equal_hardware"] == 1
    text = repr(scaling(runs))
    assert "4 cores of a processor" in text and "stays the same, 64" in text
    # In weak scaling each rank's batch stays.
    runs = [run(1, 100, batch=32), run(2, 180, batch=64)]
    assert scaling(runs, "weak")["efficiency"].tolist() == pytest.approx([1, 0.9])
    with pytest.raises(ValueError, match="global_batch"):
        scaling(runs, "strong")


@pytest.mark.parametrize(
    "second, message",
    [
        (run(2, 180, script="other.py"), "script"),
        (run(2, 180, precision="bfloat16"), "precision"),
        (run(2, 180, hardware={**HARDWARE, "cpu": "a faster one"}), "different machines"),
        (run(2, None), "no throughput"),
        (SimpleNamespace(name="broken", result=None, state="failed"), "'broken' has no result.*failed"),
    ],
)
def test_what_cannot_be_compared_is_refused(second, message):
    with pytest.raises(ValueError, match=message):
        scaling([run(1, 100), second])
    with pytest.raises(ValueError, match="one rank"):
        scaling([run(2, 100)])


def times(value):
    return {"median": value, "low": 0.9 * value, "high": 1.1 * value}


def size(width, parameters, batch, computation, communication=0.0, sent=4, part=None):
    seconds = dict(zip(PARTS, (1e-4, computation, communication / 10, communication, 2e-4), strict=True))
    step = sum(seconds.values())
    made = {
        "width": width,
        "tensors": 14,
        "parameters": parameters,
        "images_per_s": batch / step,
        "step_s": times(step),
    }
    made |= {"gradient_bytes": 4 * parameters, "sent_bytes": sent * parameters}
    made |= {f"{name}_s": times(value) for name, value in seconds.items()}
    if part:
        made["part"] = {"of": part, **size(width, parameters, batch // part, computation / part)}
    return made


PARAMETERS = (1_000, 10_000, 100_000, 1_000_000)


def sweep(ranks, alpha=2e-3, beta=1e-9, name=None, batch=64, settings=None, models=PARAMETERS, **facts):
    """Runs that follow alpha + beta × bytes exactly; computation grows with the parameters."""
    usual = {"aggregate": 1, "fusion_threshold_mb": None, "cycle_time_ms": None, "fp16_compression": False}
    settings, sizes = usual | (settings or {}), []
    for width, parameters in enumerate(models, 1):
        computation = 1e-3 + parameters * 1e-7
        sent = 2 if settings["fp16_compression"] else 4
        message = 0.0 if ranks == 1 else alpha + beta * sent * parameters
        sizes.append(size(width, parameters, batch, computation / ranks, message, sent, part=2 if ranks == 1 else None))
    facts |= {"name": name or f"{ranks} ranks", "script": "step_times.py", "config": settings, "parameters": None}
    return run(ranks, sizes[-1]["images_per_s"], batch=batch, sizes=sizes, **facts)


def test_tuning_compares_with_the_first_run_of_each_turn():
    changes = (
        {"name": "default"},
        {"name": "same"},
        {"name": "slow", "settings": {"cycle_time_ms": 50.0}},
        {"name": "fast", "beta": 0, "settings": {"fp16_compression": True}},
    )
    alphas = (2e-3, 2.1e-3, 0.2, 1e-3), (8e-3, 7.9e-3, 0.9, 3.9e-3), (2e-3, 2e-3, 0.2, 1.1e-3)  # the machine was busy
    runs = [
        sweep(2, models=PARAMETERS[:1], alpha=alpha, **change)
        for turn in alphas
        for alpha, change in zip(turn, changes, strict=True)
    ]
    table = tuning(runs)
    assert table["verdict"].tolist() == ["first", "not decided", "slower", "faster"]
    assert table["precision_bits"].tolist() == [32, 32, 32, 16]
    assert table["ratio"][0] == table["low"][0] == 1 and table["high"][2] < 0.1
    speeds = [[each.result["images_per_s"] for each in runs[start::4]] for start in (0, 3)]
    each = [fast / first for first, fast in zip(*speeds, strict=True)]
    assert table["ratio"][3] == pytest.approx(math.prod(each) ** (1 / 3))
    assert table["images_per_s"][3] == sorted(speeds[1])[1]
    assert table["sent_bytes_per_image"][3] == table["sent_bytes_per_image"][0] / 2
    assert tuning(runs[:4])["verdict"].tolist() == ["first", *["not decided"] * 3]  # one turn has no spread
    with pytest.raises(ValueError, match="turn"):
        tuning(runs[:-1])
    # Passes may differ, but no other batch.
    twice = sweep(2, batch=128, settings={"aggregate": 2}, name="two")
    assert tuning([sweep(2), twice])["aggregate"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="batch of a pass is 64.*128"):
        tuning([sweep(2), sweep(2, batch=128)])
    with pytest.raises(ValueError, match="ranks is 2.*1"):
        tuning([sweep(2), sweep(1)])


def test_prediction_is_right_if_its_model_is():
    found = payoff(sweep(1), sweep(2))
    assert found.fitted == (True, False, True, False)
    assert found.alpha_s == pytest.approx(2e-3) and found.beta_s_per_byte == pytest.approx(1e-9)
    # Only the waiting, a tenth of the communication here, is not in the prediction.
    for predicted, measured, message in zip(found.predicted_s, found.many_s, found.communication_s):
        assert measured - predicted == pytest.approx(message / 10)
    assert 0 < found.test_error < 0.1
    # One rank is faster where (alpha + beta × bytes) × 1.1 is above half of the computation.
    assert found.bytes[1] < found.measured_crossing_bytes < found.bytes[2]
    assert found.predicted_crossing_bytes < found.measured_crossing_bytes
    assert "2 ranks are faster from" in found.sentence
