"""Benchmark of train_cifar.py against PyTorch with the same network, in pairs. Needs `make setup TORCH=1`.

    python benchmarks/pytorch.py                                       # the small network, half an hour on two cores
    python benchmarks/pytorch.py --model resnet --precision bfloat16   # the residual network
    python benchmarks/pytorch.py --repeats 1 --modes eager --ranks 2
    python benchmarks/pytorch.py --batch 4096 --precision tf32 --ranks 1   # on a GPU

Both sides train the same network with batch norm on generated images, 512 samples a rank and step, with the same flips
and shifts, Nesterov momentum, and the loss and accuracy of each step. Both compute on the GPU if both see one, and on
the processor if neither does. In bfloat16, PyTorch uses autocast; in float32, neither side uses TF32. Each pair is run
A B A B ..., and a ratio is the median of the ratios of neighbors. The steps of the first epoch are warm-up on both
sides, compiling included. PyTorch's modes:

eager           default settings: convolutions in the layout [batch, channels, height, width]
channels_last   the same, with the channels last in memory, as in TensorFlow
compiled        channels last, and torch.compile
"""

import argparse
import math
import os
import subprocess
import sys
import time
from pathlib import Path

from ddl import launch
from ddl.records.machine import usable_cores
from ddl.text import plural
from throughput import PARAMETERS, SAMPLES, check_work, ours
from turns import compare_images_per_s

MODES = ("eager", "channels_last", "compiled")
SIDE, SHIFT = 32, 4
RANKS = (1, 2)
PROCESSOR = "the processor"
DEVICES = {  # how a process of each side learns what it computes on
    "TensorFlow": """import tensorflow as tf
for gpu in tf.config.list_physical_devices("GPU")[:1]:
    print(tf.config.experimental.get_device_details(gpu)["device_name"])""",
    "PyTorch": "import torch\nif torch.cuda.is_available():\n    print(torch.cuda.get_device_name())",
}


def device_of_both():
    """Return what both sides compute on: the name of a GPU, or `PROCESSOR`. Exit if it is not the same."""
    found = {}
    for side, question in DEVICES.items():
        asked = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=True)
        found[side] = asked.stdout.strip() or PROCESSOR
    if len(set(found.values())) > 1:
        words = ", ".join(f"{side} on {device}" for side, device in found.items())
        sys.exit(f"both sides must compute on the same device: {words}. CUDA_VISIBLE_DEVICES=-1 hides GPUs from both")
    return found["PyTorch"]


def threads_of(ranks, device):
    """Return the threads of each rank: two in all on a processor, and one per core with a GPU."""
    return max(1, (2 if device == PROCESSOR else usable_cores()) // ranks)


def samples_of(batch):
    """Return how many images to train on: enough for some steps of warm-up."""
    return max(SAMPLES, 12 * batch)


def theirs(model, precision, mode, ranks, batch, steps, device):
    """Return a function that trains with PyTorch and returns images/s."""

    def measure():
        threads = threads_of(ranks, device)
        how = {"workers": ranks, "threads": threads, "oversubscribe": True, "cluster": "torchrun"}
        result = launch(__file__, args=["--train", model, precision, mode, batch, steps], **how).result
        asked = {"ranks": ranks, "threads_per_rank": threads, "parameters": PARAMETERS[model], "device": device}
        check_work(result, {**asked, "samples": steps * ranks * batch})
        return result["images_per_s"]

    return measure


def train(name, precision, mode, batch_size, steps):
    """Train on this rank, and record the speed."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from course.data import load
    from course.training import torch_strategy
    from ddl.records.recorder import Recorder

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()) if cuda else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "float32"
    samples = samples_of(batch_size)
    data = load("synthetic", train_samples=samples, test_samples=100)
    pictures = torch.tensor(data.train_images, device=device)
    labels = torch.tensor(data.train_labels, device=device).long()
    layout = torch.contiguous_format if mode == "eager" else torch.channels_last
    torch.manual_seed(0)
    network = residual_network() if name == "resnet" else torch_strategy.network(10, "batch")
    network = network.to(device, memory_format=layout)
    trained = sum(math.prod(weight.shape) for weight in network.parameters())
    model = nn.parallel.DistributedDataParallel(network) if ranks > 1 else network
    if mode == "compiled":
        model = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, 0.9, nesterov=True)
    every = ranks * batch_size
    warm_up, order = samples // every, torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if step == warm_up:
            began = clock(cuda)
        if len(order) < every:
            order = torch.randperm(samples).to(device)  # the same on all ranks
        batch, order = order[:every][rank * batch_size :][:batch_size], order[every:]
        with torch.autocast("cuda" if cuda else "cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(normalized(augmented(pictures[batch])).contiguous(memory_format=layout))
        loss = nn.functional.cross_entropy(logits.float(), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        figures = torch.stack([loss.detach(), (logits.argmax(1) == labels[batch]).float().mean()])
        if ranks > 1:
            dist.all_reduce(figures)
    seconds = clock(cuda) - began
    if rank == 0:
        Recorder().result(
            {
                "ranks": ranks,
                "threads_per_rank": torch.get_num_threads(),
                "parameters": trained,
                "device": torch.cuda.get_device_name(device) if cuda else PROCESSOR,
                "samples": steps * every,
                "images_per_s": (steps - warm_up) * every / seconds,
                "loss": figures[0].item() / ranks,
            }
        )


def clock(cuda):
    """Wait for all ranks and their GPUs, and return the time."""
    import torch
    import torch.distributed as dist

    if cuda:
        torch.cuda.synchronize()
    dist.barrier()
    return time.perf_counter()


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

    count, there = len(pictures), {"device": pictures.device}
    mirrored = torch.rand(count, 1, **there) < 0.5
    down, right = torch.randint(-SHIFT, SHIFT + 1, (2, count, 1), **there)
    line = torch.arange(SIDE, **there)
    rows, columns = reflected(line + down), reflected(line + right)
    columns = torch.where(mirrored, SIDE - 1 - columns, columns)
    places = torch.arange(count, **there)[:, None, None] * SIDE**2 + rows[:, :, None] * SIDE + columns[:, None, :]
    return pictures.reshape(-1, 3)[places]


def reflected(place):
    place = place.abs()
    return place.minimum(2 * (SIDE - 1) - place)


def normalized(pictures):
    return ((pictures.float() - 120) / 64).permute(0, 3, 1, 2)


def pairs(options, device):
    """Return every pair's two sides: a name and a function that measures it."""
    model, precision, batch, steps = options.model, options.precision, options.batch, options.steps

    def sides(mode, ranks):
        threads, samples = threads_of(ranks, device), samples_of(batch)
        return f"{mode}, {plural(ranks, 'rank')} x {plural(threads, 'thread')}", {
            "train_cifar.py": ours(model, ranks, threads, ranks * batch, steps, precision, samples),
            f"PyTorch, {mode}": theirs(model, precision, mode, ranks, batch, steps, device),
        }

    return dict(sides(mode, ranks) for ranks in options.ranks for mode in options.modes)


def main():
    if sys.argv[1:2] == ["--train"]:
        *what, batch, steps = sys.argv[2:]
        train(*what, int(batch), int(steps))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="cnn", choices=PARAMETERS)
    parser.add_argument("--precision", default="float32", choices=("float32", "tf32", "bfloat16"))
    parser.add_argument("--batch", type=int, default=512, help="samples a rank and step (default: 512)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60, help="of each measurement (default: 60)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], choices=RANKS)
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--output", type=Path, default=Path("build/pytorch.json"))
    options = parser.parse_args()
    if options.steps <= (warm_up := samples_of(options.batch) // options.batch):
        parser.error(f"--steps: must be more than the {warm_up} warm-up steps")
    device = device_of_both()
    if device == PROCESSOR and options.precision == "tf32":
        parser.error("--precision tf32: no GPU that has it")
    print(f"both sides compute on {device}")
    facts = {"device": device, "batch": options.batch, "precision": options.precision}
    compare_images_per_s(pairs(options, device), options, **facts)


if __name__ == "__main__":
    main()
