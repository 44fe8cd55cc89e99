"""Predicted memory of a rank: weights, gradients, optimizer state and activations.

Bytes of a parameter and the stages are those of Rajbhandari et al. 2020, section 3; activations are counted for the
transformer of `course.sharding.transformer`.
"""

import math
from dataclasses import dataclass

from course.sharding.sums import CHARACTERS

SYMBOLS = len(CHARACTERS)
FULL, HALF = 4, 2  # bytes per number
COPIES = 3, 6, 6, 6  # by stage, in largest matrices: from TensorFlow's count at the peak, widths 384 to 1,024


@dataclass(frozen=True)
class Network:
    """The lesson's transformer and a rank's batch."""

    width: int
    depth: int
    heads: int = 8
    length: int = 64
    batch: int = 4

    @property
    def parameters(self) -> int:
        """Number of weights: four matrices per block, with 12 width² numbers, an embedding and an output."""
        return 12 * self.depth * self.width**2 + (2 * SYMBOLS + self.length) * self.width

    def activations(self, ranks: int = 1, sequence: bool = False) -> float:
        """Return the number of activations that the backward pass needs, with blocks that `ranks` split.

        Attention keeps its input, the normalized input, queries (also scaled), keys, values, the heads' outputs, and
        its result: 8 arrays of batch × length × width; and its weights, batch × heads × length². The perceptron keeps
        its input, the normalized input, 4 times as many hidden units, and its result: 7. Of these 15, tensor
        parallelism leaves input, normalized input and result of both whole, and with `sequence` it splits all.
        """
        one = self.batch * self.length * self.width
        whole = 0 if sequence else 6
        return self.depth * (whole * one + ((15 - whole) * one + self.batch * self.heads * self.length**2) / ranks)

    @property
    def checkpoints(self) -> int:
        """Number of activations if only each layer's input is kept."""
        return self.depth * 2 * self.batch * self.length * self.width


def per_rank(parameters: int, *, mixed: bool = False, stage: int = 0, ranks: int = 1) -> dict[str, int]:
    """Return the bytes of a rank's ``weights``, ``gradients`` and Adam's ``state``, with ZeRO's `stage` on `ranks`.

    In `mixed` precision weights and gradients have 2 bytes, and the state has a copy of the weights in 4.
    """
    shard = math.ceil(parameters / ranks)
    number, copy = (HALF, FULL) if mixed else (FULL, 0)
    return {
        "weights": number * (shard if stage >= 3 else parameters),
        "gradients": number * (shard if stage >= 2 else parameters),
        "state": (copy + 2 * FULL) * (shard if stage >= 1 else parameters),
    }


def predicted(network: Network, stage: int, ranks: int, checkpoint: bool = False) -> dict[str, int]:
    """Return the bytes of a rank of ``train_transformer.py`` at its peak, by what they are for.

    During the backward pass, gradients replace activations, so only the excess of activations over gradients counts.
    ``copies`` are the gradients and weights in flight of the largest matrix, which has 4 width² numbers. The process
    has more memory than its tensors, because TensorFlow's allocator keeps what later tensors do not fit into.
    """
    kept = per_rank(network.parameters, stage=stage, ranks=ranks)
    activations = FULL * (network.checkpoints if checkpoint or stage == 3 else network.activations())
    copies = COPIES[stage] if ranks > 1 else 1
    return {
        **kept,
        "activations": max(0, activations - kept["gradients"]),
        "copies": FULL * 4 * network.width**2 * copies,
    }


def network_of(run) -> Network:
    """Return the network and batch of a run of ``train_transformer.py``."""
    return Network(*(run.result["config"][name] for name in ("width", "depth", "heads", "length", "batch")))


def activations_of(run) -> float:
    """Return the bytes of activations at the end of the forward pass of a run of ``train_transformer.py``."""
    network, config = network_of(run), run.result["config"]
    whole = network.activations(config["tensor"], config["sequence"])
    return FULL * (network.checkpoints if config["checkpoint"] else whole)


def of_run(run) -> dict[str, int]:
    """Return `predicted` for a finished run of ``train_transformer.py``."""
    config = run.result["config"]
    return predicted(network_of(run), config["stage"], run.result["ranks"], config["checkpoint"])
