"""All ways of training, as real processes: they finish, and they agree."""

from importlib.util import find_spec

import pytest

from course.multi_gpu.agreement import agreement, kept_weights
from ddl import launch
from helpers import launched, launches

pytestmark = pytest.mark.nightly(
    "source_code/strategies/*", "source_code/course/training/*strategy.py", "source_code/ddl/start/*"
)

FEW = {"steps": 5, "train_samples": 256, "test_samples": 100, "data_set": "synthetic"}
WAYS = {
    "single": {"workers": 1},
    "loop": {"workers": 1},
    "mirrored": {"workers": 1},
    "mirrored_loop": {"workers": 1},
    "multi_worker": {"workers": 2, "cluster": "multi_worker"},
    "horovod_loop": {"workers": 2},
}
if find_spec("torch"):  # an extra
    WAYS["torch_ddp"] = {"workers": 2, "cluster": "torchrun"}
# Largest difference of weights, relative to the largest weight, by number of updates. Nothing but float32's
# rounding tells these ways apart: 1e-7, and a hundred times that where it decides on which side of
# a ReLU, or of a maximum, a value falls. Other samples, or a doubled gradient, make 2e-3 at once.
TOLERANCES = {1: 1e-6, 4: 1e-3}


OUTPUTS = {"runs": launches({name: {"script": f"strategies/{name}.py", **how, **FEW} for name, how in WAYS.items()})}


@pytest.fixture(scope="module")
def runs(output_of):
    return launched(*output_of("runs"))


@pytest.mark.parametrize("step", TOLERANCES)
def test_synchronous_strategies_reach_the_same_weights(runs, step):
    table = agreement(runs.values(), step)
    assert table["strategy"].tolist() == list(WAYS)
    assert table["÷ the largest weight"].max() < TOLERANCES[step], table.to_string()


def first_loss(run):
    return next(event["loss"] for event in run.events() if event["event"] == "step")


@pytest.mark.parametrize("name", WAYS)
def test_every_strategy_leaves_the_same_record(runs, name, nothing_left):
    nothing_left(runs[name])
    assert first_loss(runs[name]) == pytest.approx(first_loss(runs["single"]), rel=1e-5)
    result, single = runs[name].result, runs["single"].result
    assert set(result) == set(single) and result["parameters"] == single["parameters"]
    assert set(result["versions"]) - {"torch"} == set(single["versions"])
    assert result["strategy"] == name and result["model"] == single["model"]
    assert (result["steps"], result["samples"], result["global_batch"]) == (5, 320, 64)
    assert result["replicas"] == (1 if name in ("single", "loop") else 2)
    assert result["ranks"] * result["per_rank_batch"] == 64
    assert result["ranks"] == WAYS[name]["workers"]
    assert len(result["history"]) == 2  # the first epoch has four steps
    for ours, first in zip(result["history"], single["history"], strict=True):
        for key in ("loss", "accuracy", "test_loss", "test_accuracy"):
            assert ours[key] == pytest.approx(first[key], rel=2e-2, abs=1.1e-2), (name, key)
    assert result["images_per_s"] > 0 and result["time_to_first_step_s"] > 0


def test_parameter_server_trains_asynchronously(nothing_left):
    """Two workers on however few cores: it does not hang, and it learns."""
    options = dict(epochs=5, train_samples=5000, test_samples=1000, data_set="synthetic", timeout_s=300)
    run = launch("strategies/parameter_server.py", workers=2, cluster="parameter_server", **options)
    assert run.state == "done"
    result = run.result
    assert (result["steps"], result["samples"], result["ranks"]) == (390, 390 * 64, 2)
    assert sum(result["staleness"]) == 390 and len(result["staleness"]) > 1
    # One device had 45 % then, and this 42 %, with one seed; chance is 10 %.
    assert result["test_accuracy"] > 0.25
    assert set(kept_weights(run)) == {1, 4, 16, 64, 256, 390}
