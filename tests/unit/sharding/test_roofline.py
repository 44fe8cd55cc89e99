"""When communication hides: the closed form, measured crossings, and utilization."""

from types import SimpleNamespace

import numpy as np
import pytest

from course import roofline
from course.sharding.memory import Network


def run(**result):
    return SimpleNamespace(result=result)


def test_least_tokens_make_backward_as_long_as_the_all_reduce():
    speed, bandwidth, weights, ranks = 3e12, 5e9, 1e6, 4
    tokens = roofline.least_tokens(speed, bandwidth, ranks, number_bytes=4)
    assert 4 * weights * tokens / speed == pytest.approx(2 * 4 * weights * (ranks - 1) / ranks / bandwidth)
    assert roofline.least_tokens(speed, bandwidth, 1) == 0


def crossing(measured):
    """Return the tokens from which computation takes longer than communication."""
    ratios = np.divide(measured.ms["computation"], measured.ms["communication"])
    return np.interp(1, ratios, measured.tokens)


def test_a_run_has_times_for_all_tokens():
    times = {10: (8.0, 4.0), 20: (8.0, 12.0)}
    rows = {
        tokens: {"communication": a, "computation": b, "one after the other": a + b, "at the same time": max(a, b)}
        for tokens, (a, b) in times.items()
    }
    measured = roofline.overlap_of(run(ranks=2, ms_by_tokens=rows))
    assert crossing(measured) == pytest.approx(15) and measured.ms["at the same time"] == (8.0, 12.0)


def test_the_h100_crosses_where_its_speed_and_bandwidth_say():
    gpu = roofline.h100()
    predicted = 1e3 * gpu["matmul"]["bfloat16_tflop_s"] / gpu["bandwidth"]["host_to_device_pinned_gb_s"]
    measured = roofline.overlap_on_h100()
    assert crossing(measured) == pytest.approx(predicted, rel=0.1)
    slower = [max(pair) for pair in zip(measured.ms["communication"], measured.ms["computation"], strict=True)]
    assert measured.ms["at the same time"] == pytest.approx(slower, rel=0.12)


def test_utilization_is_one_if_all_operations_are_at_the_peak():
    config = dict(width=64, depth=2, heads=4, length=16, batch=3)
    network = Network(64, 2, 4, 16, 3)
    tokens = 2 * 3 * 16
    assert roofline.operations(network, 6) == tokens * (6 * network.parameters + 12 * 2 * 64 * 16)
    took = run(config=config, ranks=2, step_seconds=[9.0, 0.5, 0.5])
    assert roofline.utilization(took, roofline.operations(network, 6)) == pytest.approx(1.0)
