"""Lesson 3's script made distributed with PyTorch, right and wrong, for `test_launched.py`.

What a script has to do in either framework, its mistakes in Horovod show there.
"""

from helpers import ROOT

ONE_DEVICE = (ROOT / "source_code/course/workers/scripts/one_device_torch.py").read_text()
WRAP = "ddp = torch.nn.parallel.DistributedDataParallel(model)\n"
WRITE = "if dist.get_rank() == 0:\n    task.save(model)\n"
STEP = "    optimizer.step()\n"
MODEL = f"""
import torch
import torch.distributed as dist

from course.training.torch_exercise import Network, Task

dist.init_process_group("gloo")
task, model = Task(), Network()
{WRAP}optimizer = torch.optim.SGD(model.parameters(), task.rate * dist.get_world_size())

task.begin(model)  # right before the first step
for numbers in task.batches(task.batch * dist.get_world_size()):
    mine = numbers[dist.get_rank() :: dist.get_world_size()]
    loss = ddp(task.samples(mine))
    optimizer.zero_grad()
    loss.backward()
{STEP}    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    task.step(model, loss=mean, samples=len(numbers))
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
}  # fmt: skip
# The mistake, what it loses besides the points for the weights, and what the sentence says.
WRONG = {
    "not wrapped": (
        [(WRAP, ""), ("ddp(", "model(")],
        {"began_alike", "averaged"},
        "the gradient of its own samples only, not the mean",
    ),
    "DDP is made, and not called": ([("ddp(", "model(")], {"averaged"}, "the gradient of its own samples only, not the"),
    "summed": (by_hand("dist.all_reduce(weight.grad)"), {"scaled"}, "scaled twice, or summed and scaled"),
    "initial weights are not shared": (by_hand(AVERAGED, ""), {"began_alike"}, "began with other weights than rank 0"),
    "frozen weights are not shared": (
        by_hand(AVERAGED, SHARE.replace("model.parameters()", "(model.tied, model.inner, model.outer)")),
        {"frozen_and_tied"},
        "frozen weights are not rank 0's",
    ),
}  # fmt: skip
# Samples are gathered, and every rank computes the mean by itself: no gradient is sent.
GATHER = [
    ("loss = ddp(task.samples(mine))",
     "parts = [torch.zeros(len(mine), 12) for _ in range(dist.get_world_size())]\n"
     "    dist.all_gather(parts, task.samples(mine))\n    loss = model(torch.cat(parts))"),
]  # fmt: skip
ALONE = [(WRITE, WRITE.replace(":\n", ":\n    dist.all_reduce(mean)\n")), ("dist.destroy_process_group()\n", "")]
