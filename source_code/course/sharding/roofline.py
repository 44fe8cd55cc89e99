"""When communication hides behind computation, and how much of a processor a training uses.

A product of T tokens with a matrix of n weights takes 2 T n operations forward and 4 T n backward; a ring all-reduce of
the n gradients sends 2 (N − 1)/N of their bytes. The ratio is that of Austin et al. 2025, "How to Scale Your Model".
"""

from dataclasses import dataclass
from statistics import median

from course.sharding.memory import Network, network_of
from ddl.records.jsonfiles import read_json
from ddl.records.paths import reference_dir

LABELS = {  # of a record's times: communication, computation, both in turn, both at once
    "copy": "communication", "compute": "computation", "one after the other": "one after the other",
    "prefetch": "at the same time",
}  # fmt: skip


@dataclass(frozen=True)
class Overlap:
    """Measured ``{kind: (ms, …)}`` per layer of communication and computation, one for each of `tokens`."""

    where: str
    tokens: tuple[int, ...]
    ms: dict[str, tuple[float, ...]]


def least_tokens(speed: float, bandwidth: float, ranks: int, number_bytes: int = 2) -> float:
    """Return the tokens per rank from which a backward pass takes as long as the all-reduce of its gradients.

    `speed` is in operations per second, `bandwidth` in bytes per second that a rank sends.
    """
    return 2 * (ranks - 1) / ranks * number_bytes / bandwidth / (4 / speed)


def overlap_of(run) -> Overlap:
    """Return the times of a finished run of ``measure_overlap.py``."""
    return _overlap(f"{run.result['ranks']} ranks here", run.result["ms_by_tokens"])


def overlap_on_h100() -> Overlap:
    """Return the recorded times of an H100 that copies each layer's weights from the host's memory."""
    return _overlap("one H100, weights over PCIe", h100()["overlap"]["ms_per_layer_by_tokens"])


def h100() -> dict:
    """Return the steps of the record ``gpu-check.json``."""
    return read_json(reference_dir() / "gpu-check.json")["steps"]


def _overlap(where, rows):
    ms = {label: tuple(row.get(kind, row.get(label)) for row in rows.values()) for kind, label in LABELS.items()}
    return Overlap(where, tuple(map(int, rows)), ms)


def operations(network: Network, samples: int) -> float:
    """Return the operations of a training step, without recomputation: Chowdhery et al. 2022 (PaLM), appendix B."""
    tokens = samples * network.length
    return tokens * (6 * network.parameters + 12 * network.depth * network.width * network.length)


def utilization(run, peak: float) -> float:
    """Return the model FLOPs utilization of a run of ``train_transformer.py``; a rank has `peak` operations/s."""
    network, ranks = network_of(run), run.result["ranks"]
    return operations(network, network.batch * ranks) / median(run.result["step_seconds"]) / (ranks * peak)
