"""Bandwidths, as NVIDIA's nccl-tests define them, and tables of what the benchmarks measured.

The definitions are those of "Performance reported by NCCL tests", doc/PERFORMANCE.md in
https://github.com/NVIDIA/nccl-tests. Sizes are in bytes, times in seconds, bandwidths in bytes/s;
in tables 1 GB is 10^9 bytes, and 1 MB 10^6.
"""

from ddl.display.table import Table
from ddl.errors import InputError

__all__ = ["OPERATIONS", "algorithm_bandwidth", "bandwidths", "bus_bandwidth", "bus_factor", "measured", "pairs"]

# How many times the message each rank's link carries, on N ranks: "Summary" on that page.
OPERATIONS = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "all_to_all": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda ranks: 1.0,
    "reduce": lambda ranks: 1.0,
}


# ---------------------------------------------------------------- definitions


def algorithm_bandwidth(size_bytes, seconds):
    """Return ``S / t``: the size of a message over the time of the operation.

    Parameters
    ----------
    size_bytes : float or ndarray
        Of an all-gather or a reduce-scatter: what all ranks have together.
    seconds : float or ndarray

    Returns
    -------
    float or ndarray
        Bytes/s. How long an operation takes is the size over this; but it shrinks as ranks are
        added, on links that are as fast as before.
    """
    return size_bytes / seconds


def bus_factor(operation, ranks):
    """Return by how much the algorithm bandwidth is multiplied to compare it with a link's.

    Parameters
    ----------
    operation : str
        One of `OPERATIONS`.
    ranks : int

    Returns
    -------
    float
        2 (N − 1) / N for an all-reduce on N ranks; 0 on one rank, where nothing has to travel
        (1 for a broadcast and a reduce, whatever N is).

    Raises
    ------
    ValueError
        For an unknown operation or less than one rank.
    """
    if operation not in OPERATIONS:
        raise InputError(f"operation {operation!r} is not one of: {', '.join(OPERATIONS)}")
    if ranks < 1:
        raise InputError(f"ranks={ranks!r}: at least 1 is needed")
    return OPERATIONS[operation](ranks)


def bus_bandwidth(operation, size_bytes, seconds, ranks):
    """Return the algorithm bandwidth times the bus factor, in bytes/s.

    Where each rank sends and receives at the rate B at best, the operation cannot take less than
    ``bus_factor · S / B``: so this is to be compared with B, the bandwidth of a link in one
    direction, on any number of ranks.

    Parameters
    ----------
    operation : str
    size_bytes, seconds : float or ndarray
    ranks : int
    """
    return algorithm_bandwidth(size_bytes, seconds) * bus_factor(operation, ranks)


# ---------------------------------------------------------------- tables


def measured(runs, kind):
    """Return the results of runs of a benchmark, with each run's name.

    Parameters
    ----------
    runs : Run, Recorded, or an iterable of them
    kind : {"operation", "path"}
        What tells its points apart: operations are those of `bench_allreduce.py`, paths those of
        `bench_p2p.py`.

    Returns
    -------
    list of dict

    Raises
    ------
    ValueError
        If there is no run, or one has no such points.
    """
    script = {"operation": "bench_allreduce.py", "path": "bench_p2p.py"}[kind]
    runs = [runs] if hasattr(runs, "result") else list(runs)
    if not runs:
        raise InputError(f"there are no runs to show: launch {script}")
    for run in runs:
        if run.result is None:
            raise InputError(f"run {run.name!r} has no result: it is {run.state}")
        if not all(kind in point for point in run.result.get("points") or [{}]):
            raise InputError(
                f"run {run.name!r} is none of {script}, which measures "
                f"{'operations' if kind == 'operation' else 'paths between pairs'}"
            )
    return [{**run.result, "name": run.name} for run in runs]


def bandwidths(runs, operations=None):
    """Tabulate runs of `bench_allreduce.py`: a row for each operation and size of each run.

    Parameters
    ----------
    runs : Run, Recorded, or an iterable of them
    operations : iterable of str, optional
        Which to show; by default all that were measured.

    Returns
    -------
    Table
        ``seconds`` is the median over repetitions, ``seconds_low`` and ``seconds_high`` the
        quartiles, ``seconds_least`` the least. Bandwidths are those of the median.
    """
    results, rows = measured(runs, "operation"), []
    for result in results:
        for point in result["points"]:
            if operations is not None and point["operation"] not in operations:
                continue
            seconds, size, ranks = point["seconds"], point["size_bytes"], result["ranks"]
            rows.append(
                {
                    "name": result["name"],
                    "library": result["library"],
                    "backend": result["backend"],
                    "ranks": ranks,
                    "hosts": result["hosts"],
                    "operation": point["operation"],
                    "size_bytes": size,
                    "repeats": point["repeats"],
                    **_seconds(seconds),
                    **_shown(seconds),
                    "algorithm_gb_per_s": 1e-9 * algorithm_bandwidth(size, seconds["median"]),
                    "bus_gb_per_s": 1e-9 * bus_bandwidth(point["operation"], size, seconds["median"], ranks),
                }
            )
    if not rows:
        raise InputError(f"none of these runs measured {' or '.join(operations or ['anything'])}")
    labels = {
        "name": ("run", ""),
        "backend": ("carried by", ""),
        "ranks": ("ranks", "d"),
        "operation": ("operation", ""),
        "size_bytes": ("bytes", ",d"),
        "repeats": ("n", "d"),
        "time": ("time, µs (quartiles)", ""),
        "algorithm_gb_per_s": ("algorithm bandwidth, GB/s", ".3g"),
        "bus_gb_per_s": ("bus bandwidth, GB/s", ".3g"),
    }
    ways = dict.fromkeys(f"{result['name']}: {result['transport']}" for result in results)
    return Table.of(
        rows,
        labels,
        (
            "Median over n repetitions, each as long as its slowest rank. GB/s: 10⁹ bytes/s in one "
            f"direction. Where the bytes went: {'; '.join(ways)}."
        ),
    )


def pairs(runs):
    """Tabulate runs of `bench_p2p.py`: a row for each path between each two ranks.

    Parameters
    ----------
    runs : Run, Recorded, or an iterable of them

    Returns
    -------
    Table
        ``latency_s``: one way, of the smallest message, median; ``gb_per_s``: the highest
        bandwidth over the sizes, of medians; ``best_bytes``: at which size that was.
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
                    "name": result["name"],
                    "path": path,
                    "from": pair[0],
                    "to": pair[1],
                    "smallest_bytes": smallest["size_bytes"],
                    "latency_s": smallest["seconds"]["median"],
                    **_shown(smallest["seconds"]),
                    "gb_per_s": 1e-9 * _one_way(best),
                    "best_bytes": best["size_bytes"],
                }
            )
    labels = {
        "name": ("run", ""),
        "path": ("path", ""),
        "from": ("from", ""),
        "to": ("to", ""),
        "time": ("one way, µs (quartiles)", ""),
        "smallest_bytes": ("of bytes", ",d"),
        "gb_per_s": ("at best, GB/s", ".3g"),
        "best_bytes": ("at bytes", ",d"),
    }
    ways = dict.fromkeys(f"{result['name']}: {result['transport']}" for result in results)
    return Table.of(
        rows,
        labels,
        (f"Median of half a round trip. GB/s: 10⁹ bytes/s in one direction. Where the bytes went: {'; '.join(ways)}."),
    )


def _one_way(point):
    return algorithm_bandwidth(point["size_bytes"], point["seconds"]["median"])


def _seconds(seconds):
    return {"seconds": seconds["median"], **{f"seconds_{key}": seconds[key] for key in ("low", "high", "least")}}


def _shown(seconds):
    median, low, high = (1e6 * seconds[key] for key in ("median", "low", "high"))
    digits = 1 if median < 1000 else 0
    return {"time": f"{median:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"}
