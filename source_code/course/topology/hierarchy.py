"""Hierarchical all-reduce over hosts: traffic between hosts and times."""

from course.shared.bench import FLAT, VARIANTS, link_bytes
from ddl.display.style import hardware_label
from ddl.display.table import Table


def gain(hosts: int, ranks_per_host: int) -> float:
    """Return a flat ring's traffic between hosts relative to a hierarchical all-reduce.

    With H hosts of n ranks (H n − 1) / (n (H − 1)): 1.5 for two hosts of two ranks, and nearly 1 for many hosts.
    """
    return link_bytes(FLAT, 1, hosts, ranks_per_host) / link_bytes("hierarchical", 1, hosts, ranks_per_host)


def variants(run) -> Table:
    """Tabulate a run of ``hierarchical_allreduce.py``: a row for each size and variant.

    ``faster`` is relative to Horovod's ring in the same round (median), and ``verdict`` requires both quartiles to
    agree; ``counted_mb`` and ``expected_mb`` are the traffic from one host to the other per all-reduce, in 10^6 bytes.
    """
    result = run.result
    rows = [
        {
            "size_bytes": point["size_bytes"],
            "size_mb": (point["size_bytes"] / 1e6, "message, MB", ".4g"),
            "variant": (point["variant"], "variant", ""),
            "milliseconds": (1e3 * point["seconds"]["median"], "median, ms", ",.2f"),
            "spread": (_range(point["seconds"], 1e3), "quartiles, ms", ""),
            "faster": (point["faster"]["median"], "times as fast as flat", ".2f"),
            "faster_spread": (_range(point["faster"]), "quartiles", ""),
            "verdict": ("" if point["variant"] == FLAT else _verdict(point["faster"]), "against flat", ""),
            "counted_mb": (point["link_bytes"]["counted"] / 1e6, "over the link, MB", ",.3f"),
            "expected_mb": (point["link_bytes"]["expected"] / 1e6, "by arithmetic, MB", ",.3f"),
            "repeats": (point["repeats"], "n", "d"),
        }
        for point in result["points"]
    ]
    caption = (
        f"{setting(run)}. In turns: each repetition does every variant once, and as fast as flat "
        "is of the same turn; a difference is one where both quartiles say so. Over the link: what "
        "the interface of the host that sent most counted for one all-reduce, headers and "
        "acknowledgements included. " + " ".join(f"{name}: {text}." for name, text in VARIANTS.items())
    )
    return Table.of(rows, caption)


def _verdict(faster):
    if faster["low"] > 1:
        return "faster"
    return "slower" if faster["high"] < 1 else "not decided"


def _range(spread, scale=1):
    digits = 2 if scale == 1 else 1
    return f"{scale * spread['low']:,.{digits}f}–{scale * spread['high']:,.{digits}f}"


def setting(run):
    result = run.result
    machine = hardware_label(result.get("hardware"))
    recorded = f", recorded on {machine}, {result['finished'][:10]}" if run.recorded else ""
    return f"{result['ranks']} ranks on {result['hosts']} hosts, {result['transport']}{recorded}"
