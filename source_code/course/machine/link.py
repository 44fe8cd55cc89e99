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
    known = {row["generation"]: row["gb_per_s"] for row in links() if row.get("generation")}
    if generation not in known:
        raise TopologyError(f"NVLink {generation}: generations {', '.join(map(str, known))} are known")
    return known[generation]


@functools.cache
def links() -> list[dict]:
    """Return the links of ``results/reference/links.toml``, in order, as dictionaries.

    ``gb_per_s`` is nominal, in 10^9 bytes a second and per direction; memory has one bus for both. ``source`` says who
    published it, and ``confirmed`` is False if part of the figure has no source.
    """
    content = tomllib.loads((reference_dir() / "links.toml").read_text(encoding="utf-8"))
    return [{"confirmed": True, **row} for row in content["link"]]
