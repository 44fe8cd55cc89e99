"""Step times on real ranks: the parts add up, and Horovod takes the settings that it is given."""

import numpy as np
import pytest

pytest.importorskip("horovod.tensorflow")

from course.multi_gpu.plot_efficiency import plot_step_times, plot_timeline
from course.shared.bench import PARTS
from course.shared.efficiency import payoff
from course.training import models, timeline
from ddl import launch

pytestmark = pytest.mark.nightly("source_code/course/multi_gpu/scripts/step_times.py")

SMALL = {"global_batch": 8, "steps": 6}


def measured(workers, numbers, **options):
    how = {"workers": workers, "threads": 1, "oversubscribe": True}
    return launch("step_times.py", widths=list(numbers), **how, **SMALL, **options)


def test_one_and_two_ranks_over_several_sizes(nothing_left):
    one, two = measured(1, (1, 2, 4)), measured(2, (1, 2, 4), timeline=True)
    for run in (one, two):
        result = run.result
        assert [size["width"] for size in result["sizes"]] == [1, 2, 4]
        assert result["start_s"]["import"] > 0
        assert sum(result["start_s"].values()) == pytest.approx(result["time_to_first_step_s"])
        for size in result["sizes"]:
            assert size["gradient_bytes"] == 4 * size["parameters"] and size["tensors"] == 14
            assert 0 < size["step_s"]["low"] <= size["step_s"]["median"] <= size["step_s"]["high"]
            assert all(size[f"{part}_s"]["median"] >= 0 for part in PARTS)
            assert sum(size[f"{part}_s"]["low"] for part in PARTS) <= size["step_s"]["high"]
    assert all(size["part"]["of"] == 2 for size in one.result["sizes"])
    assert all("part" not in size and size["communication_s"]["median"] > 0 for size in two.result["sizes"])
    assert len(payoff(one, two).bytes) == 3
    assert "1 rank, width 1" in plot_step_times([one, two]).alt
    (training,) = launch("step_times.py", workers=1, threads=1, model="cnn", **SMALL).result["sizes"]
    trained = sum(int(np.prod(each.shape)) for each in models.build("cnn", norm="batch").trainable_variables)
    assert (training["parameters"], training["all_reduces"]) == (trained, 1)  # as in train_cifar.py

    # What Horovod wrote down: each gradient averaged in each step, the warm-up's too.
    spans = timeline.read(two.folder / timeline.FILE)
    reduced = [span.tensor for span in spans if span.phase == "negotiation" and span.operation == "ALLREDUCE"]
    for width in (1, 2, 4):
        for gradient in range(14):
            assert reduced.count(f"width{width}.gradient{gradient}") == SMALL["steps"] + 3
    assert "14 tensors in step 8" in plot_timeline(two, width=4).alt
