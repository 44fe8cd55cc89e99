"""Crossovers between all-reduce algorithms, measured by `race_allreduce.py` and predicted by the alpha-beta model."""

import math
from dataclasses import dataclass

from course.shared import cost
from ddl.display.table import Table
from ddl.errors import InputError

RING, DOUBLING, HALVING = "ring", "recursive doubling", "halving and doubling"
PAIRS = ((DOUBLING, HALVING), (DOUBLING, RING), (HALVING, RING))


@dataclass(frozen=True)
class Crossover:
    """The size above which the second algorithm is faster, by median and quartiles of the ratios.

    0 if it is faster from the smallest measured size, infinite if it is slower up to the largest.
    """

    size_bytes: float
    low: float
    high: float


def model(run) -> cost.Fit:
    """Fit alpha and beta to the ring's times only, so that the other algorithms' times are predictions."""
    result = run.result
    points = [
        (point["size_bytes"], point["seconds"]["median"]) for point in result["points"] if point["algorithm"] == RING
    ]
    return cost.fit(points, result["ranks"], RING)


def crossover(run, one: str, other: str) -> Crossover:
    """Return the size above which `other` is faster than `one` in a run of ``race_allreduce.py``."""
    points = [point for point in run.result["points"] if point["algorithm"] == one and other in point["ahead_of"]]
    if not points:
        raced = dict.fromkeys(point["algorithm"] for point in run.result["points"])
        raise InputError(f"{one!r} and {other!r} did not race here; those that did: {', '.join(raced)}")
    sizes = [point["size_bytes"] for point in points]
    ahead = [point["ahead_of"][other] for point in points]
    found = [cost.crossing(sizes, [spread[key] for spread in ahead]) for key in ("median", "low", "high")]
    return Crossover(*found)


def model_crossover(one: str, other: str, ranks: int, link: cost.Link) -> float:
    """Return the size in bytes above which `other` is faster on a link, by the model of `course.shared.cost`.

    ``(m' − m) alpha / ((b − b') beta)`` with m messages in sequence and b bytes per byte of data for `one`, m' and b'
    for `other`; infinite if never, 0 if always.
    """
    (messages, share), (other_messages, other_share) = (cost.terms(name, ranks) for name in (one, other))
    more, less = (other_messages - messages) * link.alpha_s, (share - other_share) * link.beta_s_per_byte
    if less <= 0:
        return 0.0 if more < 0 else math.inf
    return max(0.0, more / less)


def crossovers(run) -> Table:
    """Tabulate the crossovers of a run of ``race_allreduce.py``, measured and by the model fitted to its ring.

    Sizes are in bytes: ``measured_bytes`` with ``low_bytes`` and ``high_bytes``, and ``model_bytes``; see `Crossover`.
    """
    fit, ranks = model(run), run.result["ranks"]
    rows = []
    for one, other in PAIRS:
        measured = crossover(run, one, other)
        rows.append(
            {
                "faster_for_few": (one, "for fewer bytes", ""),
                "faster_for_many": (other, "for more bytes", ""),
                "measured_bytes": (measured.size_bytes, "changes at, bytes", ",.0f"),
                "low_bytes": (measured.low, "quartiles from", ",.0f"),
                "high_bytes": (measured.high, "to", ",.0f"),
                "model_bytes": (model_crossover(one, other, ranks, fit), "by the model", ",.0f"),
            }
        )
    caption = (
        f"{ranks} ranks, {run.result['transport']}. In turns: ratios are of the same turn. 0: already at the smallest "
        "size; inf: not up to the largest, or by the model never. The model's latency and bandwidth are fitted to the "
        f"ring's times only: {1e6 * fit.alpha_s:.3g} µs a message, {fit.bandwidth_gb_per_s:.3g} GB/s."
    )
    return Table.of(rows, caption)
