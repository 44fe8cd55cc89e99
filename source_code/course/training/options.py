"""Command-line options of the course's scripts.

Scripts parse their command line before they spend seconds importing TensorFlow, so this module imports only the
standard library.
"""

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from course.training.recipes import REFERENCE_BATCH
from ddl.arguments import Parser
from ddl.errors import CourseError

MODELS = ("cnn", "resnet")  # the networks of course.training.models
CASES = ("none", *"ABCDEFG")  # of bug_hunt.py; the reader finds out which mistake is which
OWN = "own"  # --embedding's name for course.multi_gpu.embedding
# On 5,000 generated images, batch 64, 3 epochs, one seed: 0.02 gives 38 % held-out accuracy on
# one device and 28 % with a parameter server and two workers; 0.05 gives 36 % and 23 %.
LEARNING_RATE = 0.02


@dataclass(frozen=True)
class Number:
    """Argument type for a finite number: from `least` to `most`, and greater than `above`."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    kind, called = float, "a finite number"

    def __call__(self, text):
        try:
            value = self.kind(text)
        except ValueError:
            value = math.nan
        if not abs(value) < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r} is not {self.called}")
        if not value > self.above:
            raise argparse.ArgumentTypeError(f"{text}: it must be above {self.above:g}")
        if value < self.least:
            raise argparse.ArgumentTypeError(f"{text}: it must be at least {self.least:g}")
        if value > self.most:
            raise argparse.ArgumentTypeError(f"{text}: it must be at most {self.most:,}")
        return value


@dataclass(frozen=True)
class Integer(Number):
    """Argument type for an integer."""

    least: int = 1
    most: int = 10**9
    kind, called = int, "a whole number"


def split_evenly(ours, config):
    """Exit with argparse's error if the replicas cannot share the global batch evenly."""
    if config.global_batch % config.replicas:
        ours.error(f"--global-batch {config.global_batch} does not split evenly over {config.replicas} replicas")


SEED = Integer(0, 4_000_000)  # a thousand times this must still be a 32-bit seed


def parser(description: str) -> Parser:
    """Return a parser whose ``--help`` shows a script's docstring unformatted."""
    return Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def run(main, config: argparse.Namespace) -> None:
    """Call a script's `main` with its options; a user's mistake ends it with a one-line message."""
    try:
        main(config)
    except CourseError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")


def transformer(ours: Parser, arguments, width: int, depth: int) -> argparse.Namespace:
    """Add the options of lesson 6's transformer and parse the command line."""
    add = ours.add_argument
    add("--width", type=Integer(8, 4096), default=width, help="of a layer, a multiple of the heads")
    add("--depth", type=Integer(), default=depth, help="blocks of attention and perceptron")
    add("--heads", type=Integer(), default=8, help="of each attention")
    add("--length", type=Integer(2), default=64, help="characters of a sample")
    add("--seed", type=SEED, default=0)
    config = ours.parse_args(arguments)
    if config.width % config.heads:
        ours.error(f"--width {config.width} does not split into {config.heads} heads")
    return config


def add_backend(ours: Parser) -> None:
    """Add the PyTorch scripts' option for the communication backend."""
    ours.add_argument(
        "--backend",
        choices=("nccl", "gloo"),
        help="communication backend (default: nccl on GPUs, gloo on cores; nccl needs a GPU for each rank)",
    )


def add_data(ours: Parser, real: str = "cifar10") -> None:
    """Add the options for an image data set and its parts."""
    add = ours.add_argument
    add("--data-set", default="auto", choices=("auto", real, "synthetic"))
    add("--train-samples", type=Integer(), metavar="N", help="train on a part (default: all)")
    add("--test-samples", type=Integer(), metavar="N", help="evaluate on a part (default: all)")


def strategy(
    description: str, replicas: int | None = None, arguments=None, backend: bool = False
) -> argparse.Namespace:
    """Parse the options of a script in ``source_code/strategies``, whose docstring is the `description`.

    `replicas` is the default of ``--replicas``, the replicas per process; None leaves the option out. `backend` adds
    ``--backend``.
    """
    ours = parser(description)
    add_data(ours)
    if backend:
        add_backend(ours)
    add = ours.add_argument
    add("--epochs", type=Number(above=0), default=1)
    add("--steps", type=Integer(), help="train for this many steps instead")
    samples = "samples averaged in each weight update"
    add("--global-batch", type=Integer(), default=REFERENCE_BATCH, help=samples)
    rate = {"default": LEARNING_RATE, "help": f"at a global batch of {REFERENCE_BATCH}"}
    add("--learning-rate", type=Number(above=0), metavar="RATE", **rate)
    add("--seed", type=SEED, default=0, help="seed of initial weights and sample order")
    if replicas:
        add("--replicas", type=Integer(), default=replicas, help="GPUs, or logical devices if there are fewer GPUs")
    config = ours.parse_args(arguments)
    if replicas:
        split_evenly(ours, config)
    return config
