import json
import math
from types import SimpleNamespace

import pytest

from course.training.recipes import SettingError
from course.training.schedule import Schedule, rate_at, schedule_of


def test_warm_up_climbs_linearly_from_the_start_to_the_peak():
    rate = Schedule(start=0.05, peak=0.8, warmup_epochs=2, epochs=8)
    assert [rate(epoch) for epoch in (0, 0.5, 1, 2, 7.9)] == pytest.approx([0.05, 0.2375, 0.425, 0.8, 0.8])


def test_cosine_runs_from_the_end_of_the_warm_up_to_zero_at_the_end():
    rate = Schedule(start=0.1, peak=1.0, warmup_epochs=2, epochs=10, decay="cosine")
    assert rate(2) == 1.0
    for epoch in (3, 4.5, 6, 9.9):
        assert rate(epoch) == pytest.approx(math.cos(math.pi * (epoch - 2) / 16) ** 2)
    assert rate(10) == rate(11) == pytest.approx(0, abs=1e-15)


def test_steps_divide_by_ten_at_a_third_two_thirds_and_eight_ninths():
    rate = Schedule(peak=1.0, epochs=90, decay="step")
    at = {0: 1, 29.9: 1, 30: 0.1, 59.9: 0.1, 60: 0.01, 79.9: 0.01, 80: 0.001, 89: 0.001}
    assert [rate(epoch) for epoch in at] == pytest.approx(list(at.values()))


def test_warm_up_starts_at_unscaled_rate_or_share_of_peak():
    rates = {"global_batch": 1024, "learning_rate": 0.1, "lr_rule": "linear", "warmup_epochs": 2, "rates": None}
    settings = SimpleNamespace(**rates, warmup_start=None, schedule="constant", epochs_in_all=8)
    assert [schedule_of(settings)(epoch) for epoch in (0, 2)] == pytest.approx([0.1, 1.6])
    settings.warmup_start = 0.25
    assert [schedule_of(settings)(epoch) for epoch in (0, 2)] == pytest.approx([0.4, 1.6])


def test_a_file_gives_the_rate_of_each_step(tmp_path):
    file = tmp_path / "rates.json"
    steps, epochs = 7, 2.8
    file.write_text(json.dumps([step / 10 for step in range(steps)]))
    settings = SimpleNamespace(rates=str(file), total_steps=steps, epochs_in_all=epochs)
    schedule = schedule_of(settings)
    assert [schedule(step / (steps / epochs)) for step in range(steps)] == [step / 10 for step in range(steps)]
    assert schedule.peak == 0.6
    for text, refusal in (
        ("[1, 2", "cannot be read"),
        ("[1, -1]", "numbers"),
        ("[1, NaN]", "numbers"),
        ("[1]", "7 steps"),
    ):
        file.write_text(text)
        with pytest.raises(SettingError, match=refusal):
            schedule_of(settings)


def test_rate_at_is_the_schedule_of_a_training_with_warm_up():
    assert rate_at(10, 90, 10, 0.1, 1024, "linear") == pytest.approx(1.6)
    assert rate_at(0, 90, 10, 0.1, 1024, "sqrt") == pytest.approx(0.1)
    assert rate_at(50, 90, 10, 0.1, 1024, "sqrt") == pytest.approx(0.2)
