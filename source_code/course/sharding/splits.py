"""Predicted memory and step time of ways to split a large model over a cluster.

Time is computation at a GPU's achieved speed, including the pipeline's bubble, plus communication by the α–β model of
lesson 2. Counts of floating-point operations and messages are those of Narayanan et al. 2021, "Efficient Large-Scale
Language Model Training on GPU Clusters Using Megatron-LM", sections 3 and 5; activations are recomputed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from course.sharding.memory import HALF, per_rank
from course.shared.cost import Link, ring


@dataclass(frozen=True)
class Model:
    """A GPT-like network and its global batch."""

    name: str
    layers: int
    width: int
    heads: int
    batch: int
    length: int = 2048
    symbols: int = 51_200

    @property
    def parameters(self) -> int:
        """Number of weights: equation 2 of Narayanan et al. 2021."""
        per_layer = 12 * self.width**2 + 13 * self.width
        return self.layers * per_layer + (self.symbols + self.length) * self.width

    @property
    def operations(self) -> float:
        """Floating-point operations of a step with recomputation: equation 3."""
        tokens, width = self.batch * self.length, self.width
        more = self.length / (6 * width) + self.symbols / (16 * self.layers * width)
        return 96 * tokens * self.layers * width**2 * (1 + more)


NVLINK = Link(alpha_s=5e-6, beta_s_per_byte=1 / 235e9)  # of an A100 with its share of the host's 8 cards of 200 Gbit/s
INFINIBAND = Link(alpha_s=10e-6, beta_s_per_byte=1 / 22e9)


@dataclass(frozen=True)
class Cluster:
    """A cluster: memory per GPU in bytes, achieved operations per second, links inside and between hosts.

    A network of width h computes at `speed` × h / (h + `narrow`). Both were fitted to `MEGATRON`.
    """

    gpus: int
    per_host: int = 8
    memory: float = 0.96 * 80e9  # a process needs at least 4 % more than its tensors (lesson 6c)
    speed: float = 198e12
    narrow: float = 718
    inside: Link = NVLINK
    between: Link = INFINIBAND


@dataclass(frozen=True)
class Split:
    """Degrees of data, tensor and pipeline parallelism."""

    data: int
    tensor: int
    pipeline: int


def splits(model: Model, cluster: Cluster) -> Iterator[Split]:
    """Yield all possible splits over a cluster, with tensor parallelism inside hosts."""
    for tensor in range(1, cluster.per_host + 1):
        for pipeline in range(1, model.layers + 1):
            data, left = divmod(cluster.gpus, tensor * pipeline)
            even = not (left or model.heads % tensor or model.layers % pipeline or cluster.per_host % tensor)
            if even and data and model.batch % data == 0:
                yield Split(data, tensor, pipeline)


def mesh(ranks: int, tensor: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return the groups of ranks that average gradients, and the groups of `tensor` ranks that split each layer.

    The latter are neighbors, so that they share a host.
    """
    rows = [list(range(first, first + tensor)) for first in range(0, ranks, tensor)]
    return [list(column) for column in zip(*rows, strict=True)], rows


def options(ranks: int, tensor: int, global_batch: int) -> dict[str, int]:
    """Return the options of ``train_transformer.py`` in such a mesh: ranks of a tensor group see the same samples."""
    return {"workers": ranks, "batch": global_batch // (ranks // tensor)}


def memory(model: Model, split: Split) -> float:
    """Return the bytes per GPU: mixed precision, Adam, and each layer's input for one microbatch (a sample)."""
    kept = sum(per_rank(math.ceil(model.parameters / (split.tensor * split.pipeline)), mixed=True).values())
    one = HALF * model.length * model.width
    waiting = min(split.pipeline, model.batch // split.data)  # live microbatches in the first stage
    # a recomputed layer's activations
    again = one * 17 / split.tensor + HALF * model.heads / split.tensor * model.length**2 * 2.5
    return kept + waiting * model.layers / split.pipeline * one + again


def seconds(model: Model, cluster: Cluster, split: Split) -> dict[str, float]:
    """Return the seconds of a step by purpose."""
    microbatches = model.batch // split.data
    compute = model.operations / cluster.gpus / cluster.speed * (1 + cluster.narrow / model.width)
    one = HALF * model.length * model.width  # bytes per sample between two layers
    own_layers = model.layers / split.pipeline
    inside = ring(one, split.tensor, cluster.inside.alpha_s, cluster.inside.beta_s_per_byte)
    busy = compute + 6 * microbatches * own_layers * inside  # two each: forward, backward, recomputation
    crosses = split.data * split.tensor * split.pipeline > cluster.per_host
    gradients = HALF * model.parameters / (split.tensor * split.pipeline)
    link = cluster.between if crosses else cluster.inside
    hop = link.alpha_s + one / split.tensor * link.beta_s_per_byte
    return {
        "computation": compute,
        "tensor parallelism": busy - compute,
        "bubble": busy * (split.pipeline - 1) / microbatches,
        "pipeline's messages": 2 * microbatches * hop if split.pipeline > 1 else 0.0,
        "average of gradients": ring(gradients, split.data, link.alpha_s, link.beta_s_per_byte),
    }


def best(model: Model, cluster: Cluster) -> Split | None:
    """Return the fastest split that fits into memory, or None."""
    fitting = [split for split in splits(model, cluster) if memory(model, split) <= cluster.memory]
    return min(fitting, key=lambda split: sum(seconds(model, cluster, split).values()), default=None)


# Table 1 of Narayanan et al. 2021: the model, number of A100s, the authors' degrees, and achieved TFLOP/s per GPU.
MEGATRON = [
    (Model("1.7B", 24, 2304, 24, 512), 32, Split(32, 1, 1), 137),
    (Model("3.6B", 30, 3072, 32, 512), 64, Split(32, 2, 1), 138),
    (Model("7.5B", 36, 4096, 32, 512), 128, Split(32, 4, 1), 142),
    (Model("18.4B", 40, 6144, 48, 1024), 256, Split(32, 8, 1), 135),
    (Model("39.1B", 48, 8192, 64, 1536), 512, Split(32, 8, 2), 138),
    (Model("76.1B", 60, 10240, 80, 1792), 1024, Split(32, 8, 4), 140),
    (Model("145.6B", 80, 12288, 96, 2304), 1536, Split(24, 8, 8), 148),
    (Model("310.1B", 96, 16384, 128, 2160), 1920, Split(15, 8, 16), 155),
    (Model("529.6B", 105, 20480, 128, 2520), 2520, Split(9, 8, 35), 163),
    (Model("1008.0B", 128, 25600, 160, 3072), 3072, Split(6, 8, 64), 163),
]
