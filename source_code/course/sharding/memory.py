"""Where a rank's memory goes: bytes of weights, gradients, an optimizer's state and activations, by arithmetic.

Bytes of a parameter and the stages are those of Rajbhandari et al. 2020, section 3; activations are counted for the
transformer of `course.sharding.transformer`.
"""

import math
from dataclasses import dataclass

from course.sharding.sums import CHARACTERS

SYMBOLS = len(CHARACTERS)
SLOTS = {"sgd": 0, "momentum": 1, "adam": 2}  # numbers of state for each weight
FULL, HALF = 4, 2  # bytes of a number
# By stage, in largest matrices: what was seen on two cores, November 2026, widths 384 to 1,024 on two and four ranks.
COPIES = (3, 6, 6, 6)
LIBRARIES = (4, 7, 6, 3)


@dataclass(frozen=True)
class Network:
    """The lesson's transformer, and the batch of a rank."""

    width: int
    depth: int
    heads: int = 8
    length: int = 64
    batch: int = 4

    @property
    def parameters(self) -> int:
        """How many weights it has: four matrices in a block, of 12 width² numbers, an embedding and an output."""
        return 12 * self.depth * self.width**2 + (2 * SYMBOLS + self.length) * self.width

    @property
    def activations(self) -> int:
        """How many numbers backward needs of all blocks.

        Attention keeps its input, the same normed, queries (also scaled), keys, values, what its heads have taken, and
        its result: 8 of the size batch × length × width; and its shares, batch × heads × length². The perceptron keeps
        input, normed input, 4 times as many hidden units, and its result: 7.
        """
        one = self.batch * self.length * self.width
        return self.depth * (15 * one + self.batch * self.heads * self.length**2)

    @property
    def checkpoints(self) -> int:
        """How many numbers are left of the activations where only each layer's input is kept."""
        return self.depth * 2 * self.batch * self.length * self.width


def per_rank(
    parameters: int, optimizer: str = "adam", *, mixed: bool = False, stage: int = 0, ranks: int = 1
) -> dict[str, int]:
    """Return the bytes of a rank's ``weights``, ``gradients`` and ``state``, with `stage` of ZeRO on so many ranks.

    In `mixed` precision weights and gradients have 2 bytes, and the state has a copy of the weights in 4.
    """
    part = math.ceil(parameters / ranks)
    number, copy = (HALF, FULL) if mixed else (FULL, 0)
    return {
        "weights": number * (part if stage >= 3 else parameters),
        "gradients": number * (part if stage >= 2 else parameters),
        "state": (copy + FULL * SLOTS[optimizer]) * (part if stage >= 1 else parameters),
    }


def predicted(network: Network, optimizer: str, stage: int, ranks: int, checkpoint: bool = False) -> dict[str, int]:
    """Return the bytes of a rank of ``train_transformer.py`` at its peak, by what they are for.

    Gradients take the place of activations as backward goes on, so only what activations are more than gradients
    counts. ``copies`` are tensors on their way: of gradients and weights that are being sent, received and put
    together. ``libraries`` is what Horovod, Gloo and TensorFlow's allocator hold beside tensors. Both are counted in
    largest matrices, of 4 width² numbers.
    """
    kept = per_rank(network.parameters, optimizer, stage=stage, ranks=ranks)
    activations = FULL * (network.checkpoints if checkpoint or stage == 3 else network.activations)
    matrix = FULL * 4 * network.width**2
    return {
        **kept,
        "activations": max(0, activations - kept["gradients"]),
        "copies": matrix * (COPIES[stage] if ranks > 1 else 1),
        "libraries": matrix * (LIBRARIES[stage] if ranks > 1 else 1),
    }


def of_run(run) -> dict[str, int]:
    """Return what `predicted` says of a finished run of ``train_transformer.py``."""
    config = run.result["config"]
    network = Network(*(config[name] for name in ("width", "depth", "heads", "length", "batch")))
    return predicted(network, config["optimizer"], config["stage"], run.result["ranks"], config["checkpoint"])
