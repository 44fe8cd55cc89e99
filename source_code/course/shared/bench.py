"""Shared parts of the benchmarks: message sizes, repeats, timing statistics and transports.

This module needs neither TensorFlow nor Horovod.
"""

import re

import psutil

from course.training import options
from course.training.options import Integer, Number
from ddl.errors import CourseError
from ddl.records.machine import available_bytes
from ddl.records.network import addresses, link_made_here
from ddl.text import plural

ITEM_BYTES = 4  # of float32, the type of all messages
LEAST_REPEATS = 3
FLAT = "flat"  # baseline of hierarchical_allreduce.py
HIERARCHICAL = "hierarchical"
VARIANTS = {
    FLAT: "Horovod's own all-reduce: one ring, host by host",
    HIERARCHICAL: "reduce-scatter in each host, all-reduce between hosts, all-gather in each",
}

# Parts of a training step, in order. Waiting and communication are both inside the all-reduce.
PARTS = ("input", "computation", "waiting", "communication", "update")


class BenchError(CourseError, ValueError):
    """Impossible measurement."""


def parser(description: str, **defaults) -> options.Parser:
    """Return a parser with the options of all benchmarks; `defaults` replace theirs."""
    ours = options.parser(description)
    add = ours.add_argument
    size = Integer(ITEM_BYTES, 2**40)
    add("--min-bytes", type=size, default=ITEM_BYTES, help="smallest size")
    add("--max-bytes", type=size, default=2**28, help="largest size (default: 256 MiB)")
    add("--factor", type=Integer(2), default=4, help="factor between consecutive sizes")
    add("--sizes", type=size, nargs="+", metavar="BYTES", help="measure these sizes instead, multiples of four bytes")
    add("--repeats", type=Integer(), default=200, metavar="N", help="maximum number of repeats of each size")
    budget = f"seconds to spend on each size (but at least {LEAST_REPEATS} repeats)"
    add("--seconds", type=Number(above=0), default=0.5, help=budget)
    ours.set_defaults(**defaults)
    return ours


def parse(parser, arguments):
    """Parse and check a benchmark's options."""
    config = parser.parse_args(arguments)
    try:
        sizes(config)
        nccl_settings(getattr(config, "nccl", ()))
    except BenchError as error:
        parser.error(str(error))
    return config


def sizes(config) -> list[int]:
    """Return the sizes to measure, in bytes, ascending. Raises BenchError if one is not a multiple of 4."""
    if config.sizes:
        found = sorted(set(config.sizes))
    else:
        if config.min_bytes > config.max_bytes:
            raise BenchError(f"--min-bytes {config.min_bytes} is above --max-bytes {config.max_bytes}")
        found = [config.min_bytes]
        while found[-1] * config.factor <= config.max_bytes:
            found.append(found[-1] * config.factor)
    wrong = [size for size in found if size % ITEM_BYTES]
    if wrong:
        raise BenchError(
            f"a message of {wrong[0]} bytes: messages are float32 numbers, so their sizes are multiples of {ITEM_BYTES}"
        )
    return found


def repeats(config, seconds: float) -> int:
    """Return the number of repeats, within limits, that fit the budget if one takes `seconds`."""
    return min(config.repeats, max(LEAST_REPEATS, int(config.seconds / max(seconds, 1e-9))))


def spread(values) -> dict:
    """Return median and quartiles: ``{"median": …, "low": …, "high": …}``."""
    import numpy  # slow import, not needed for options

    low, median, high = numpy.percentile(values, (25, 50, 75)).tolist()
    return {"median": median, "low": low, "high": high}


def timing(seconds) -> dict:
    """Return the summary of repeated times, in seconds: their `spread` and the ``least``."""
    return {**spread(seconds), "least": float(min(seconds))}


# ---------------------------------------------------------------- limits


def nccl_settings(texts) -> dict[str, str]:
    """Parse settings of NCCL: ``["NCCL_ALGO=Ring"]`` gives ``{"NCCL_ALGO": "Ring"}``."""
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not re.fullmatch(r"NCCL_[A-Z0-9_]+", name) or not equals or not value:
            raise BenchError(f"--nccl {text}: expected NCCL_NAME=VALUE, such as NCCL_ALGO=Ring")
        found[name] = value
    return found


def refuse_what_does_not_fit(size_bytes: int, copies: int, ranks: int):
    """Raise BenchError, with the largest possible size, if messages don't fit into memory.

    `size_bytes` is the largest message; each of the `ranks` on this host holds `copies` of it at once.
    """
    free, needed = available_bytes(), copies * size_bytes * ranks
    if needed > free:
        fits = free // (copies * ranks) // ITEM_BYTES * ITEM_BYTES
        raise BenchError(
            f"messages of {size_bytes:,} bytes need about {needed / 1e6:,.0f} MB ({copies} copies "
            f"on each of {plural(ranks, 'rank')}), but this host has {free / 1e6:,.0f} MB "
            f"free: use --max-bytes {fits}"
        )


# ---------------------------------------------------------------- transports


def link(interface: str, hosts: int = 2) -> str:
    """Return a description of TCP's transport, as far as this host knows.

    `interface` is empty if unknown. On one host, the kernel goes through memory, regardless of the interface. Raises
    BenchError like `address`.
    """
    if interface:
        address(interface)
    if hosts == 1:
        bound = f", addresses of {interface}" if interface and interface != "lo" else ""
        return f"loopback (TCP inside this host{bound}, no network card)"
    if made := link_made_here():
        return f"TCP over {made}"
    if not interface:
        return "TCP between hosts over an unknown interface"
    rate = psutil.net_if_stats()[interface].speed
    speed = f"{rate:,} Mbit/s, according to its driver" if rate else "rate not reported by its driver"
    return f"TCP between hosts over {interface} ({speed})"


def address(interface: str) -> str:
    """Return the IPv4 address of a network interface of this host. Raises BenchError if it has none."""
    interfaces = addresses()
    if interface not in interfaces:
        raise BenchError(
            f"this host has no network interface {interface} with an IPv4 address; "
            f"there are: {', '.join(sorted(interfaces))}"
        )
    return interfaces[interface]


def link_bytes(variant: str, size_bytes: float, hosts: int, ranks_per_host: int) -> float:
    """Return the bytes that one host sends to other hosts, without headers.

    A ring of N ranks passes on 2 (N − 1)/N of the message from each rank to the next (Patarasuk & Yuan 2009, "Bandwidth
    optimal all-reduce algorithms for clusters of workstations", section 3.2: N − 1 steps of reduce-scatter and as many
    of all-gather, of 1/N of the message each). For one rank of a host, the next is on another host. In a hierarchy,
    each of the n parts of the message has a ring with one rank of each host. N is `hosts` × n, n is `ranks_per_host`.
    """
    if variant == HIERARCHICAL:
        return 2 * (hosts - 1) / hosts * size_bytes
    ranks = hosts * ranks_per_host
    return 2 * (ranks - 1) / ranks * size_bytes if hosts > 1 else 0.0
