"""Train lesson 6's transformer with PyTorch's tools for sharding.

    ddl run --workers 2 --cluster torchrun torch_sharded.py --method fsdp
    torchrun --nproc-per-node 2 source_code/course/sharding/scripts/torch_sharded.py --method zero1

"ddp" replicates everything, as --stage 0 of train_transformer.py does; "zero1" is ZeroRedundancyOptimizer (stage 1),
"fsdp" fully_shard (stage 3). "gpipe", "1f1b" and "interleaved" cut the layers into a pipeline
(torch.distributed.pipelining).
"""

from course.training.options import Integer, Number, add_backend, parser, run, transformer

METHODS = ("ddp", "zero1", "fsdp", "gpipe", "1f1b", "interleaved")


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--method", choices=METHODS, default="ddp")
    add("--batch", type=Integer(), default=4, help="samples of a rank in a step; of a pipeline, of a microbatch")
    add("--microbatches", type=Integer(), default=8, help="of a step, in a pipeline")
    add("--steps", type=Integer(), default=5)
    add("--learning-rate", type=Number(above=0), default=3e-5)
    add_backend(ours)
    return transformer(ours, arguments, width=256, depth=4)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import os
from functools import partial

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from course.sharding.sums import CHARACTERS, initial, text
from course.training.training_log import Writer

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B}


def main(config):
    dist.init_process_group(config.backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    device = torch.device("cpu")
    if torch.cuda.is_available():  # modulo, because a scheduler may show each rank only its own GPU
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    writer = Writer(rank == 0)
    writer.event("start", steps=config.steps, world=ranks)
    pipelined = config.method in SCHEDULES
    samples = config.batch * (config.microbatches if pipelined else ranks)
    batches = torch.from_numpy(text((config.steps, samples, config.length + 1), config.seed).astype(np.int64))
    train = pipeline(config, rank, ranks, device) if pipelined else data_parallel(config, device)
    losses = []
    for number, batch in enumerate(batches.to(device), 1):
        loss = torch.tensor(train(batch if pipelined else batch[rank::ranks]), device=device)
        dist.all_reduce(loss)
        losses.append(loss.item() / (1 if pipelined else ranks))
        writer.event("step", step=number)
        writer.print(f"step {number}: loss {losses[-1]:.6f}")
    writer.result(config=vars(config), ranks=ranks, losses=losses)


def data_parallel(config, device):
    """Return a function that takes a step on this rank's samples, and returns their loss."""
    model, settings = network(config).to(device), {"lr": config.learning_rate, "betas": (0.9, 0.99)}
    if config.method == "fsdp":
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = DistributedDataParallel(model)
    if config.method == "zero1":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, **settings)
    else:
        optimizer = torch.optim.Adam(model.parameters(), **settings)

    def step(batch):
        loss = mean_loss(model(batch[:, :-1]), batch[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def pipeline(config, rank, ranks, device):
    """Return a function that takes a step on all microbatches; the last stage returns their mean loss, others 0."""
    several = config.method == "interleaved"
    count = 2 * ranks if several else ranks  # of stages
    parts = [part(network(config), number, count).to(device) for number in range(rank, count, ranks)]
    stages = [PipelineStage(each, rank + place * ranks, count, device) for place, each in enumerate(parts)]
    schedule = SCHEDULES[config.method](stages if several else stages[0], config.microbatches, loss_fn=mean_loss)
    weights = [weight for each in parts for weight in each.parameters()]
    optimizer = torch.optim.Adam(weights, config.learning_rate, (0.9, 0.99))

    def step(batch):
        optimizer.zero_grad()
        losses = []
        arguments = [batch[:, :-1]] if rank == 0 else []
        schedule.step(*arguments, **({"target": batch[:, 1:], "losses": losses} if rank == ranks - 1 else {}))
        optimizer.step()
        return sum(loss.item() for loss in losses) / config.microbatches

    return step


def part(layers, number, count):
    """Return a pipeline stage's layers: the first stage also has the embedding, and the last one the output."""
    each = (len(layers) - 2) // count
    return layers[1 + number * each - (number == 0) : 1 + (number + 1) * each + (number == count - 1)]


def mean_loss(logits, targets):
    """Return the mean loss of logits, ``[batch, length, characters]``."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


# ---------------------------------------------------------------- the network of `course.sharding.transformer`


def network(config):
    """Return the layers one after the other, with the same initial weights."""
    width, symbols = config.width, len(CHARACTERS)
    block = [
        (((width, 3 * width), (width, width)), partial(attention, heads=config.heads)),
        (((width, 4 * width), (4 * width, width)), perceptron),
    ]
    embedding = ((symbols, width), (config.length, width)), lambda x, table, positions: table[x] + positions
    last = ((width, symbols),), lambda x, table: normed(x) @ table
    kinds = [embedding, *config.depth * block, last]
    return nn.Sequential(*(Layer(*kind, number, config.seed) for number, kind in enumerate(kinds)))


class Layer(nn.Module):
    """A layer: its matrices, and its function of input and matrices."""

    def __init__(self, shapes, function, number, seed):
        super().__init__()
        self.weights = nn.ParameterList(torch.from_numpy(matrix) for matrix in initial(shapes, number, seed))
        self.function = function

    def forward(self, x):
        return self.function(x, *self.weights)


def attention(x, qkv, out, heads):
    """Return the input plus causal self-attention."""
    batch, length, width = x.shape
    query, key, value = (normed(x) @ qkv).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    taken = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    return x + taken.transpose(1, 2).reshape(batch, length, width) @ out


def perceptron(x, first, second):
    """Return the input plus the result of a multilayer perceptron."""
    return x + torch.relu(normed(x) @ first) @ second


def normed(x):
    """Return vectors of root mean square 1."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


if __name__ == "__main__":
    run(main, config)
    # After the model is gone: otherwise it would hold the last reference to the group, and joining the group's threads,
    # which wait for the GIL, would deadlock.
    dist.destroy_process_group()
