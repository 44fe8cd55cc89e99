import os

import pytest

from course.training.horovod_utils import ALONE_MS, CYCLE_TIME, SAMPLE_MS, WAKE_UP_MS, cycle_time, cycle_time_ms


def test_no_other_cycle_time_costs_a_step_less():
    for samples, threads in ((32, 1), (512, 2)):

        def cost(cycle, samples=samples, threads=threads):
            return WAKE_UP_MS * SAMPLE_MS * samples / threads / cycle + cycle / 2

        best = cycle_time_ms(2, samples, threads)
        assert cost(best) < min(cost(0.9 * best), cost(1.1 * best))
    # Horovod's own is the shortest, and a rank alone takes the longest.
    assert cycle_time_ms(64, 1, 8) == 1
    assert cycle_time_ms(1, 1) == ALONE_MS


def test_it_is_set_for_a_while_only(monkeypatch):
    monkeypatch.delenv(CYCLE_TIME, raising=False)
    with cycle_time(None):
        assert CYCLE_TIME not in os.environ
    with pytest.raises(RuntimeError), cycle_time(7.82):
        assert os.environ[CYCLE_TIME] == "7.8"
        raise RuntimeError
    assert CYCLE_TIME not in os.environ


@pytest.mark.parametrize("name", [CYCLE_TIME, "HOROVOD_AUTOTUNE"])
def test_what_a_user_set_stands(monkeypatch, name):
    monkeypatch.delenv(CYCLE_TIME, raising=False)
    monkeypatch.setenv(name, "3")
    before = dict(os.environ)
    with cycle_time(7.8):
        assert dict(os.environ) == before
