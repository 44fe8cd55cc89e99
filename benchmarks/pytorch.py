"""Benchmark of train_cifar.py against PyTorch with the same network, in pairs. Needs `make setup TORCH=1`.

    python benchmarks/pytorch.py                                       # the small network, half an hour on two cores
    python benchmarks/pytorch.py --model resnet --precision bfloat16   # the residual network
    python benchmarks/pytorch.py --repeats 1 --ways eager --ranks 2

Both sides train the same network with batch norm on generated images, 512 samples a rank and step, with the same flips
and shifts, Nesterov momentum, and the loss and accuracy of each step. In bfloat16, PyTorch uses autocast. Each pair is
run A B A B ..., and a ratio is the median of the ratios of neighbors. The steps of the first epoch are warm-up on both
sides, compiling included. PyTorch's ways:

eager           default settings: convolutions in the layout [batch, channels, height, width]
channels_last   the same, with the channels last in memory, as in TensorFlow
compiled        channels last, and torch.compile
"""

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path

from ddl import launch
from throughput import PARAMETERS, SAMPLES, SHOW, check_work, ours
from turns import Turns, paired, print_pairs, take_turns

WAYS = ("eager", "channels_last", "compiled")
BATCH, SIDE, SHIFT = 512, 32, 4
WARM_UP = SAMPLES // BATCH  # steps, of one rank
HOW = {1: 2, 2: 1}  # threads of each of so many ranks


def theirs(model, precision, way, ranks, steps):
    """Return a function that trains with PyTorch and returns images/s."""

    def measure():
        how = {"workers": ranks, "threads": HOW[ranks], "oversubscribe": True, "cluster": "torchrun"}
        run = launch(__file__, args=["--train", model, precision, way, steps], **how)
        result = run.result
        asked = {"ranks": ranks, "threads_per_rank": HOW[ranks], "parameters": PARAMETERS[model]}
        check_work(result, {**asked, "samples": steps * ranks * BATCH})
        return result["images_per_s"]

    return measure


def train(name, precision, way, steps):
    """Train on this rank, and record the speed."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from course.data import load
    from course.training import torch_strategy
    from ddl.records.recorder import Recorder

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    data = load("synthetic", train_samples=SAMPLES, test_samples=100)
    pictures, labels = torch.tensor(data.train_images), torch.tensor(data.train_labels).long()
    layout = torch.contiguous_format if way == "eager" else torch.channels_last
    torch.manual_seed(0)
    network = residual_network() if name == "resnet" else torch_strategy.network(10, "batch")
    network = network.to(memory_format=layout)
    trained = sum(math.prod(weight.shape) for weight in network.parameters())
    model = nn.parallel.DistributedDataParallel(network) if ranks > 1 else network
    if way == "compiled":
        model = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, 0.9, nesterov=True)
    warm_up, order = WARM_UP // ranks, torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if step == warm_up:
            dist.barrier()
            began = time.perf_counter()
        if len(order) < ranks * BATCH:
            order = torch.randperm(SAMPLES)  # the same on all ranks
        batch, order = order[: ranks * BATCH][rank * BATCH :][:BATCH], order[ranks * BATCH :]
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(normalized(augmented(pictures[batch])).contiguous(memory_format=layout))
        loss = nn.functional.cross_entropy(logits.float(), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        figures = torch.stack([loss.detach(), (logits.argmax(1) == labels[batch]).float().mean()])
        if ranks > 1:
            dist.all_reduce(figures)
    seconds = time.perf_counter() - began
    if rank == 0:
        Recorder().result(
            {
                "ranks": ranks,
                "threads_per_rank": torch.get_num_threads(),
                "parameters": trained,
                "samples": steps * ranks * BATCH,
                "images_per_s": (steps - warm_up) * ranks * BATCH / seconds,
                "loss": figures[0].item() / ranks,
            }
        )


def residual_network():
    """Return `course.training.models`' residual network: a stem, then two bottleneck blocks."""
    from torch import nn

    def conv(inputs, outputs, side, stride=1, padding=0):
        return [nn.Conv2d(inputs, outputs, side, stride, padding, bias=False), nn.BatchNorm2d(outputs)]

    class Bottleneck(nn.Module):
        def __init__(self, inputs, inner, outer, stride):
            super().__init__()
            first = [*conv(inputs, inner, 1, stride), nn.ReLU(inplace=True)]
            second = [*conv(inner, inner, 3, padding=1), nn.ReLU(inplace=True)]
            self.main = nn.Sequential(*first, *second, *conv(inner, outer, 1))
            self.shortcut = nn.Sequential(*conv(inputs, outer, 1, stride))

        def forward(self, x):
            return nn.functional.relu(self.main(x) + self.shortcut(x), inplace=True)

    stem = [*conv(3, 64, 7, 2, 3), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)]
    blocks = [Bottleneck(64, 64, 256, 1), Bottleneck(256, 128, 512, 2)]
    return nn.Sequential(*stem, *blocks, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(2048, 10))


def augmented(pictures):
    """Mirror half of the images and shift each by up to 4 pixels, in one gather like train_cifar.py."""
    import torch

    count = len(pictures)
    mirrored = torch.rand(count, 1) < 0.5
    down, right = torch.randint(-SHIFT, SHIFT + 1, (2, count, 1))
    line = torch.arange(SIDE)
    rows, columns = reflected(line + down), reflected(line + right)
    columns = torch.where(mirrored, SIDE - 1 - columns, columns)
    places = torch.arange(count)[:, None, None] * SIDE**2 + rows[:, :, None] * SIDE + columns[:, None, :]
    return pictures.reshape(-1, 3)[places]


def reflected(place):
    place = place.abs()
    return place.minimum(2 * (SIDE - 1) - place)


def normalized(pictures):
    return ((pictures.float() - 120) / 64).permute(0, 3, 1, 2)


def pairs(model, precision, ranks, ways, steps):
    """Return every pair's two sides: a name and a function that measures it."""
    where = {1: "1 process x 2 threads", 2: "2 ranks x 1 thread"}
    return {
        f"{way}, {where[count]}": {
            "train_cifar.py": ours(model, count, HOW[count], count * BATCH, steps, precision),
            f"PyTorch, {way}": theirs(model, precision, way, count, steps),
        }
        for count in ranks
        for way in ways
    }


def main():
    if sys.argv[1:2] == ["--train"]:
        *what, steps = sys.argv[2:]
        train(*what, int(steps))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="cnn", choices=PARAMETERS)
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60, help="of each measurement (default: 60)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], choices=HOW)
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--output", type=Path, default=Path("build/pytorch.json"))
    options = parser.parse_args()
    if options.steps <= WARM_UP:
        parser.error(f"--steps: must be more than the {WARM_UP} warm-up steps")

    os.environ["DDL_VIEW"] = "plain"
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("DDL_RUNS_DIR", folder)
        report = take_turns(
            options.output,
            {
                name: Turns(sides, options.repeats, SHOW)
                for name, sides in pairs(
                    options.model, options.precision, options.ranks, options.ways, options.steps
                ).items()
            },
            lambda rows: {"pairs": {name: paired(measured, "images_per_s") for name, measured in rows.items()}},
            model=options.model,
            precision=options.precision,
            repeats=options.repeats,
            steps=options.steps,
        )
    print_pairs(report["pairs"], SHOW)


if __name__ == "__main__":
    main()
