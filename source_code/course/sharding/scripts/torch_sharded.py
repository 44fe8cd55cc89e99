"""Train lesson 6's transformer with PyTorch's tools for sharding.

    ddl run --workers 2 --cluster torchrun torch_sharded.py --method fsdp
    torchrun --nproc-per-node 2 source_code/course/sharding/scripts/torch_sharded.py --method zero1

"ddp" replicates everything, as --stage 0 of train_transformer.py does; "zero1" is ZeroRedundancyOptimizer (stage 1),
"fsdp" fully_shard (stage 3). "gpipe" and "1f1b" cut the layers into a pipeline (torch.distributed.pipelining).
"""

from course.training.options import Integer, Number, add_backend, parser, run, transformer

METHODS = ("ddp", "zero1", "fsdp", "gpipe", "1f1b")


def parse(arguments=None):
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
    config = parse()  # before the slow imports, to report wrong options at once

import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from course.sharding.sums import CHARACTERS, initial, text
from course.training.journal import Writer


def main(config):
    dist.init_process_group(config.backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    device = torch.device("cpu")
    if torch.cuda.is_available():  # modulo, because a scheduler may show each rank only its own GPU
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    writer = Writer(rank == 0)
    writer.event("start", steps=config.steps, world=ranks)
    pipelined = config.method in ("gpipe", "1f1b")
    samples = config.batch * (config.microbatches if pipelined else ranks)
    batches = text(config.steps * samples * (config.length + 1), config.seed)
    batches = torch.from_numpy(batches.reshape(config.steps, samples, config.length + 1).astype(np.int64))
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
    model, settings = Transformer(config).to(device), {"lr": config.learning_rate, "betas": (0.9, 0.99)}
    if config.method == "fsdp":
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
        optimizer = torch.optim.Adam(model.parameters(), **settings)
    else:
        model = DistributedDataParallel(model)
        optimizer = torch.optim.Adam(model.parameters(), **settings)
        if config.method == "zero1":
            optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, **settings)

    def step(batch):
        loss = mean_loss(model(batch[:, :-1]), batch[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def pipeline(config, rank, ranks, device):
    """Return a function that takes a step on all microbatches; the last stage returns their mean loss, others 0."""
    whole = Transformer(config)
    each = len(whole.layers) // ranks
    whole.layers = whole.layers[rank * each : (rank + 1) * each]
    whole.embeds, whole.ends = rank == 0, rank == ranks - 1
    stage = PipelineStage(whole.to(device), rank, ranks, device)
    kind = ScheduleGPipe if config.method == "gpipe" else Schedule1F1B
    schedule = kind(stage, config.microbatches, loss_fn=mean_loss)
    optimizer = torch.optim.Adam(
        [weight for weight in whole.parameters() if weight.requires_grad], config.learning_rate, (0.9, 0.99)
    )

    def step(batch):
        optimizer.zero_grad()
        losses = []
        arguments = [batch[:, :-1]] if whole.embeds else []
        schedule.step(*arguments, **({"target": batch[:, 1:], "losses": losses} if whole.ends else {}))
        optimizer.step()
        return sum(loss.item() for loss in losses) / config.microbatches

    return step


def mean_loss(logits, targets):
    """Return the mean loss of logits, ``[batch, length, characters]``."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Transformer(nn.Module):
    """The network of `course.sharding.transformer`, with the same initial weights."""

    def __init__(self, config):
        super().__init__()
        width, symbols, seed = config.width, len(CHARACTERS), config.seed
        self.table, self.positions = parameters(((symbols, width), (config.length, width)), 0, seed)
        blocks = range(config.depth)
        self.layers = nn.ModuleList(
            layer
            for block in blocks
            for layer in (
                Attention(((width, 3 * width), (width, width)), 2 * block + 1, seed, config.heads),
                Perceptron(((width, 4 * width), (4 * width, width)), 2 * block + 2, seed),
            )
        )
        (self.last,) = parameters(((width, symbols),), 2 * config.depth + 1, seed)
        self.embeds = self.ends = True  # a pipeline stage may lack both

    def forward(self, x):
        x = self.table[x] + self.positions if self.embeds else x
        for layer in self.layers:
            x = x + layer(normed(x))
        return normed(x) @ self.last if self.ends else x


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, shapes, number, seed, heads):
        super().__init__()
        self.qkv, self.out = parameters(shapes, number, seed)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (x @ self.qkv).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        taken = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return taken.transpose(1, 2).reshape(batch, length, width) @ self.out


class Perceptron(nn.Module):
    """Multilayer perceptron with a ReLU, applied at each position."""

    def __init__(self, shapes, number, seed):
        super().__init__()
        self.first, self.second = parameters(shapes, number, seed)

    def forward(self, x):
        return torch.relu(x @ self.first) @ self.second


def parameters(shapes, number, seed):
    """Return a layer's matrices as parameters."""
    return [nn.Parameter(torch.from_numpy(matrix)) for matrix in initial(shapes, number, seed)]


def normed(x):
    """Return vectors of root mean square 1."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


if __name__ == "__main__":
    run(main, config)
    # After the model is gone: otherwise it would hold the last reference to the group, and joining the group's threads,
    # which wait for the GIL, would deadlock.
    dist.destroy_process_group()
