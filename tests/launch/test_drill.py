"""The drill of 3e: a rank of a real run is killed at a step, and the run goes on."""

import pytest

from course import drill
from ddl import launch
from ddl.errors import InputError

SMALL = {"data_set": "synthetic", "train_samples": 6400, "test_samples": 100, "global_batch": 32, "workers": 2}


@pytest.mark.slow
def test_a_rank_is_killed_at_a_step_and_its_cost_is_read(nothing_left):
    run = launch("train_cifar.py", **SMALL, steps=300, checkpoint_every=1, max_restarts=2, wait=False)
    assert drill.kill_at(run, rank=1, step=20) is run
    nothing_left(run)
    cost = drill.costs([run]).iloc[0]
    assert run.state == "done" and len(run.restarts) == 1
    assert cost["killed at step"] >= 20 and cost["steps twice"] <= 2
    assert 0 < cost["lost_s"] and 0 < cost["step_s"] < 5 and 0 <= cost["checkpoint_s"] < cost["step_s"]


@pytest.mark.slow
def test_a_run_that_is_over_before_is_said_to_be(nothing_left):
    run = launch("train_cifar.py", **SMALL, steps=3, wait=False)
    with pytest.raises(InputError, match="was done before rank 1 could be killed at step 50"):
        drill.kill_at(run, rank=1, step=50)
    nothing_left(run)
