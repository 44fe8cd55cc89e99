"""The arithmetic of checkpoints: published figures, a minimum, and a simulation that shares no code with it."""

import pytest

from course.multi_gpu.failures import DAY_S, GPU_MTBF_S, daly, lost_share, young


def test_llama_3_failed_every_three_hours():
    assert GPU_MTBF_S / 16_384 * 419 == pytest.approx(54 * DAY_S)
    assert GPU_MTBF_S / 16_384 / 3_600 == pytest.approx(3.1, abs=0.05)


@pytest.mark.parametrize("mtbf, published", [(24 * 60, 117), (6 * 60, 57), (15, 9.1)])
def test_the_best_intervals_are_those_of_daly_s_figures(mtbf, published):
    assert daly(5, mtbf) == pytest.approx(published, rel=0.006)


def test_young_interval_minimizes_lost_share():
    best, costs = young(60, 11_124), (60, 300, 11_124)
    around = [lost_share(best * factor, *costs) for factor in (0.5, 0.99, 1, 1.01, 2)]
    assert min(around) == around[2]
    restarts = 300 / 11_124
    assert [(share - restarts) / (around[2] - restarts) for share in around[::4]] == pytest.approx([1.25, 1.25])


def test_mark_scheme_numbers_are_right():
    mtbf_s = GPU_MTBF_S / 4_096
    assert mtbf_s / 3_600 == pytest.approx(12.4, abs=0.05)
    now, shorter = (lost_share(young(checkpoint, mtbf_s), checkpoint, 0, mtbf_s) for checkpoint in (60, 30))
    assert (100 * now, 100 * shorter) == pytest.approx((5.2, 3.7), abs=0.05)
    assert (100 * 300 / mtbf_s, 100 * 150 / mtbf_s) == pytest.approx((0.7, 0.3), abs=0.05)
