"""Bandwidths as defined by NVIDIA's nccl-tests, and tables of the benchmarks.

The definitions are those of "Performance reported by NCCL tests", doc/PERFORMANCE.md in
https://github.com/NVIDIA/nccl-tests. Sizes are in bytes, times in seconds, bandwidths in bytes/s; in tables 1 GB is
10^9 bytes and 1 MB is 10^6.
"""

from ddl.display.table import Table
from ddl.errors import InputError

# Bytes per rank's link and byte of the message on N ranks, from "Summary" on that page.
BUS_FACTORS = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda ranks: 1.0,
}


def bus_bandwidth(operation: str, size_bytes, seconds, ranks: int):
    """Return the bus bandwidth in bytes/s, to compare with a link's in one direction.

    It is the algorithm bandwidth, size over time, times the factor in `BUS_FACTORS`. The size of an all-gather is the
    total over all ranks.
    """
    return size_bytes / seconds * BUS_FACTORS[operation](ranks)


def measured(runs, kind) -> list[dict]:
    """Return the results of one or more runs of a benchmark, each with its run's name.

    `kind` is "operation" for `bench_allreduce.py` and "path" for `bench_p2p.py`.
    """
    script = {"operation": "bench_allreduce.py", "path": "bench_p2p.py"}[kind]
    runs = [runs] if hasattr(runs, "result") else list(runs)
    if not runs:
        raise InputError(f"no runs to show: launch {script}")
    for run in runs:
        if run.result is None:
            raise InputError(f"run {run.name!r} has no result: it is {run.state}")
        if not all(kind in point for point in run.result.get("points") or [{}]):
            raise InputError(f"run {run.name!r} is not a run of {script}")
    return [{**run.result, "name": run.name} for run in runs]


def bandwidths(runs, operations=None) -> Table:
    """Tabulate one or more runs of `bench_allreduce.py`, with a row for each operation and size.

    `operations` selects some; by default, all are shown. ``seconds`` is the median over repetitions, ``seconds_low``
    and ``seconds_high`` are quartiles, ``seconds_least`` is the minimum. Bandwidths are computed from the median.
    """
    results, rows = measured(runs, "operation"), []
    for result in results:
        for point in result["points"]:
            if operations is not None and point["operation"] not in operations:
                continue
            seconds, size, ranks = point["seconds"], point["size_bytes"], result["ranks"]
            bus = bus_bandwidth(point["operation"], size, seconds["median"], ranks)
            rows.append(
                {
                    "name": (result["name"], "run", ""),
                    "library": result["library"],
                    "backend": (result["backend"], "carried by", ""),
                    "ranks": (ranks, "ranks", "d"),
                    "hosts": result["hosts"],
                    "operation": (point["operation"], "operation", ""),
                    "size_bytes": (size, "bytes", ",d"),
                    "repeats": (point["repeats"], "n", "d"),
                    "seconds": seconds["median"],
                    **{f"seconds_{key}": seconds[key] for key in ("low", "high", "least")},
                    "time": (_quartiles(seconds), "time, µs (quartiles)", ""),
                    "algorithm_gb_per_s": (1e-9 * size / seconds["median"], "algorithm bandwidth, GB/s", ".3g"),
                    "bus_gb_per_s": (1e-9 * bus, "bus bandwidth, GB/s", ".3g"),
                }
            )
    if not rows:
        raise InputError(f"none of these runs measured {' or '.join(operations or ['anything'])}")
    caption = (
        "Median over n repetitions, each as long as its slowest rank. GB/s: 10⁹ bytes/s in one "
        f"direction. Where the bytes went: {_transports(results)}."
    )
    return Table.of(rows, caption)


def pairs(runs) -> Table:
    """Tabulate one or more runs of `bench_p2p.py`, with a row for each path between two ranks.

    ``latency_s`` is the median one-way time of the smallest message; ``gb_per_s`` is the highest median bandwidth, at
    ``best_bytes``.
    """
    results, rows = measured(runs, "path"), []
    for result in results:
        curves = {}
        for point in result["points"]:
            curves.setdefault((point["path"], tuple(point["pair"])), []).append(point)
        for (path, pair), points in curves.items():
            smallest = min(points, key=lambda point: point["size_bytes"])
            best = max(points, key=_one_way)
            rows.append(
                {
                    "name": (result["name"], "run", ""),
                    "path": (path, "path", ""),
                    "from": (pair[0], "from", ""),
                    "to": (pair[1], "to", ""),
                    "time": (_quartiles(smallest["seconds"]), "one way, µs (quartiles)", ""),
                    "latency_s": smallest["seconds"]["median"],
                    "smallest_bytes": (smallest["size_bytes"], "of bytes", ",d"),
                    "gb_per_s": (1e-9 * _one_way(best), "at best, GB/s", ".3g"),
                    "best_bytes": (best["size_bytes"], "at bytes", ",d"),
                }
            )
    caption = (
        "Median of half a round trip. GB/s: 10⁹ bytes/s in one direction. "
        f"Where the bytes went: {_transports(results)}."
    )
    return Table.of(rows, caption)


def _transports(results):
    return "; ".join(dict.fromkeys(f"{result['name']}: {result['transport']}" for result in results))


def _one_way(point):
    return point["size_bytes"] / point["seconds"]["median"]


def _quartiles(seconds):
    median, low, high = (1e6 * seconds[key] for key in ("median", "low", "high"))
    digits = 1 if median < 1000 else 0
    return f"{median:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"
