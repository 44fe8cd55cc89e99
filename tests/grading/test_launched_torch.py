"""Lesson 3's script made distributed with PyTorch: the same checks as for Horovod, in `test_launched.py`'s words."""

import pytest
from test_launched import changed

from course.grader.limits import Limits
from helpers import ROOT

pytestmark = pytest.mark.slow
ONE_DEVICE = (ROOT / "source_code/course/workers/scripts/one_device_torch.py").read_text()
WRAP = "ddp = torch.nn.parallel.DistributedDataParallel(model)\n"
MINE = "numbers[dist.get_rank() :: dist.get_world_size()]"
RATE = "task.rate * dist.get_world_size()"
AVERAGE = "    mean = loss.detach().clone()\n    dist.all_reduce(mean)\n    mean /= dist.get_world_size()\n"
WRITE = "if dist.get_rank() == 0:\n    task.save(model)\n"
STEP = "    optimizer.step()\n"
MODEL = f"""
import torch
import torch.distributed as dist

from course.training.torch_exercise import Network, Task

dist.init_process_group("gloo")
task, model = Task(), Network()
{WRAP}optimizer = torch.optim.SGD(model.parameters(), {RATE})

task.begin(model)  # right before the first step
for numbers in task.batches(task.batch * dist.get_world_size()):
    mine = {MINE}
    loss = ddp(task.samples(mine))
    optimizer.zero_grad()
    loss.backward()
{STEP}{AVERAGE}    task.step(model, loss=mean, samples=len(numbers))
{WRITE}dist.destroy_process_group()
"""
SHARE = "for weight in model.parameters():\n    dist.broadcast(weight.data, 0)\n"
AVERAGED = "dist.all_reduce(weight.grad)\n        weight.grad /= dist.get_world_size()"


def by_hand(average, share=SHARE):
    """The changes that do without DDP: what is done before the first step, and with each `weight` in a step."""
    each = f"    for weight in (model.tied, model.inner, model.outer):\n        {average}\n"
    return [(WRAP, share), ("ddp(", "model("), (STEP, each + STEP)]


RIGHT = {
    "the model answer": [],
    "the wrapped model is noted, and saved": [
        ("task.begin(model)", "task.begin(ddp)"),
        ("task.step(model", "task.step(ddp"),
        ("save(model)", "save(ddp)"),
        ("dist.destroy_process_group()\n", ""),
    ],
    "every gradient by hand": by_hand(AVERAGED),
    "gathered": by_hand(
        "every = [torch.zeros_like(weight) for _ in range(dist.get_world_size())]\n"
        "        dist.all_gather(every, weight.grad)\n        weight.grad = sum(every) / len(every)"
    ),
    "gathered as objects": by_hand(
        "every = [None] * dist.get_world_size()\n"
        "        dist.all_gather_object(every, weight.grad.numpy())\n"
        "        weight.grad = torch.from_numpy(sum(every) / len(every))"
    ),
    "compressed": [
        (WRAP, "from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook\n"
         + WRAP + "ddp.register_comm_hook(None, fp16_compress_hook)\n"),
    ],
}  # fmt: skip
# The mistake, what it loses besides the points for the weights, and what the sentence says.
WRONG = {
    "no shards": ([(MINE, "numbers")], {"own_samples"}, "samples were on more than one rank: each takes its own"),
    "not wrapped": (
        [(WRAP, ""), ("ddp(", "model(")],
        {"began_alike", "averaged"},
        "the gradient of its own samples only, not the mean",
    ),
    "DDP is made, and not called": ([("ddp(", "model(")], {"averaged"}, "the gradient of its own samples only, not the"),
    "summed": (by_hand("dist.all_reduce(weight.grad)"), {"scaled"}, "scaled twice, or summed and scaled"),
    "the rate of one rank": ([(RATE, "task.rate")], {"scaled"}, "the rate of one rank's batch"),
    "initial weights are not shared": (by_hand(AVERAGED, ""), {"began_alike"}, "began with other weights than rank 0"),
    "frozen weights are not shared": (
        by_hand(AVERAGED, SHARE.replace("model.parameters()", "(model.tied, model.inner, model.outer)")),
        {"frozen_and_tied"},
        "frozen weights are not rank 0's",
    ),
    "each rank's own loss": ([("loss=mean", "loss=loss")], {"true_metrics"}, "which is that of its own samples; the mean"),
    "all write": ([(WRITE, "task.save(model)\n")], {"one_writer"}, "wrote the weights; rank 0 alone is to"),
}  # fmt: skip


@pytest.fixture
def lost(lost):
    pytest.importorskip("torch")
    return lost


@pytest.mark.parametrize("changes", RIGHT.values(), ids=RIGHT)
def test_right_answers_in_several_styles_keep_all_points(lost, changes):
    assert lost(changed(MODEL, changes), sizes=[3] if changes else [2, 3]) == {}


@pytest.mark.parametrize("changes, loses, sentence", WRONG.values(), ids=WRONG)
def test_a_mistake_loses_its_own_points_with_its_own_sentence(lost, changes, loses, sentence):
    found = lost(changed(MODEL, changes), sizes=[2])
    assert loses <= set(found) <= loses | {"same_weights"}, found
    assert any(sentence in text for text in found.values()), found


def test_the_script_for_one_device_is_not_distributed(lost):
    found = lost(ONE_DEVICE, sizes=[2])
    assert set(found) >= {"same_weights", "own_samples", "began_alike", "scaled", "true_metrics", "one_writer"}


def test_a_gradient_that_no_rank_sent_earns_nothing(lost):
    """Samples are gathered, and every rank computes the mean by itself."""
    gather = (
        "parts = [torch.zeros(len(mine), 12) for _ in range(dist.get_world_size())]\n"
        "    dist.all_gather(parts, task.samples(mine))\n    loss = model(torch.cat(parts))"
    )
    found = lost(changed(MODEL, [("loss = ddp(task.samples(mine))", gather)]), sizes=[2])
    assert set(found) == {"averaged", "same_weights"} and "to no collective" in found["averaged"]


def test_a_rank_that_waits_for_one_that_ended_says_so(ranks, lost, monkeypatch):
    monkeypatch.setattr(ranks, "_limits", Limits(launch_s=20))
    alone = [(WRITE, WRITE.replace(":\n", ":\n    dist.all_reduce(mean)\n")), ("dist.destroy_process_group()\n", "")]
    with pytest.raises(AssertionError, match="rank 0 waited in line 24 for a rank that had ended: do all"):
        lost(changed(MODEL, alone), sizes=[2])
