"""Kinds of links and their published bandwidths."""

import functools
import tomllib

from course.machine.error import TopologyError
from ddl.records.paths import reference_dir

# PCI Express: billion transfers per second and lane, and the share that is data after the line code
# (8b/10b, then 128b/130b; of PCIe 6's flits of 256 bytes, 242 are for packets).
PCIE = {1: (2.5, 8 / 10), 2: (5, 8 / 10), 3: (8, 128 / 130), 4: (16, 128 / 130), 5: (32, 128 / 130), 6: (64, 242 / 256)}


def pcie_gb_per_s(generation: int, width: int) -> float:
    """Return the bandwidth of a PCIe link of `width` lanes in GB/s per direction, without packet headers."""
    if generation not in PCIE or width < 1:
        raise TopologyError(
            f"PCIe {generation} x{width}: expected generation {min(PCIE)} to {max(PCIE)} and at least one lane"
        )
    rate, share = PCIE[generation]
    return rate * share * width / 8


def nvlink_gb_per_s(generation: int) -> float:
    """Return the bandwidth of one NVLink in GB/s per direction."""
    known = {row["generation"]: row["gb_per_s"] for row in rows() if row.get("generation")}
    if generation not in known:
        raise TopologyError(f"NVLink {generation}: generations {', '.join(map(str, known))} are known")
    return known[generation]


@functools.cache
def _content():
    return tomllib.loads((reference_dir() / "links.toml").read_text(encoding="utf-8"))


def latencies():
    """Return each group's approximate time of a small message, and its source: ``{group: {"about", "source"}}``."""
    return _content()["latency"]


def rows():
    """Return the links of ``results/reference/links.toml`` as dictionaries, in order."""
    return [{"confirmed": True, "latency": latencies()[row["group"]]["about"], **row} for row in _content()["link"]]


def links():
    """Tabulate kinds of links with their sources.

    ``gb_per_s`` is in GB/s (10^9 bytes a second) per direction, ``both_gb_per_s`` both directions together (the same
    for memory, which has one bus for both). ``confirmed`` is False if part of the figure has no source.
    """
    from ddl.display.table import Table

    shown = [
        {
            "link": (row["link"], "link", ""),
            "group": (row["group"], "kind", ""),
            "gb_per_s": (row["gb_per_s"], "GB/s per direction", ",.4g"),
            "both_gb_per_s": (row["gb_per_s"] * (1 if row["group"] == "memory" else 2), "GB/s both directions", ",.4g"),
            "latency": (row["latency"], "latency, about", ""),
            "source": (row["source"], "source", ""),
            "confirmed": row["confirmed"],
        }
        for row in rows()
    ]
    return Table.of(
        shown,
        "Nominal rates; 1 GB/s is 10^9 bytes per second. Memory has one bus for both directions. "
        "Latencies are for one product or model of each kind: "
        + "; ".join(f"{group}: {latency['source']}" for group, latency in latencies().items())
        + ".",
    )
