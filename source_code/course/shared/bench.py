"""What the benchmarks share: message sizes, repeats, statistics of times, and where bytes went.

The scripts measure; this needs neither TensorFlow nor Horovod.
"""

import re

import psutil

from course.training.options import Integer, Number
from ddl.errors import CourseError
from ddl.records.machine import available_bytes
from ddl.records.network import addresses, link_made_here
from ddl.text import plural

# From one float32 number to 256 MiB, each four times the one before it.
DEFAULT_SIZES = {"min_bytes": 4, "max_bytes": 2**28, "factor": 4}
ITEM_BYTES = 4  # of a float32, which all messages are made of
LEAST_REPEATS = 3
FLAT = "flat"  # what hierarchical_allreduce.py compares the others with
VARIANTS = {
    FLAT: "Horovod's own all-reduce: one ring, host by host",
    "ring": "the same ring over sockets",
    "crossing ring": "a ring over sockets that changes the host at every step",
    "hierarchical": "reduce-scatter in each host, all-reduce between hosts, all-gather in each",
    "leaders": "all-reduce in each host, all-reduce between one rank of each, broadcast in each",
}


# Of a training step, in their order. Waiting and communication happen inside the same all-reduce.
PARTS = ("input", "computation", "waiting", "communication", "update")


class BenchError(CourseError, ValueError):
    """Something cannot be measured as it was asked for."""


def add_options(parser):
    """Give an argparse parser the options that all benchmarks have."""
    add = parser.add_argument
    size = Integer(ITEM_BYTES, 2**40)
    add("--min-bytes", type=size, default=DEFAULT_SIZES["min_bytes"], help="the smallest size")
    add("--max-bytes", type=size, default=DEFAULT_SIZES["max_bytes"], help="the largest size (default: 256 MiB)")
    add("--factor", type=Integer(2), default=DEFAULT_SIZES["factor"], help="from one size to the next")
    add("--sizes", type=size, nargs="+", metavar="BYTES", help="these instead, all multiples of four bytes")
    add("--repeats", type=Integer(), default=200, metavar="N", help="of each size, at most")
    budget = f"to spend on a size, which gets {LEAST_REPEATS} repeats even where they take longer"
    add("--seconds", type=Number(above=0), default=0.5, help=budget)
    add("--interface", metavar="NAME", help="the network interface to use, such as eth0")


def parse(parser, arguments):
    """Parse a benchmark's options; refuse at once what cannot be measured."""
    config = parser.parse_args(arguments)
    try:
        sizes(config)
        nccl_settings(getattr(config, "nccl", ()))
        if config.interface:
            address(config.interface)
    except BenchError as error:
        parser.error(str(error))
    return config


def sizes(config) -> list[int]:
    """Return the sizes to measure, in bytes, ascending; BenchError, if one is not a whole number of float32 values."""
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
    """Return how often to repeat what took `seconds` once: as the budget allows, within limits."""
    return min(config.repeats, max(LEAST_REPEATS, int(config.seconds / max(seconds, 1e-9))))


def spread(values) -> dict:
    """Return median and quartiles: ``{"median": …, "low": …, "high": …}``."""
    import numpy  # here, as options need none of it

    low, median, high = numpy.percentile(values, (25, 50, 75)).tolist()
    return {"median": median, "low": low, "high": high}


def timing(seconds) -> dict:
    """Return what a record keeps of repeated times, in seconds: their `spread`, and the ``least``."""
    return {**spread(seconds), "least": float(min(seconds))}


# ---------------------------------------------------------------- what is allowed


def nccl_settings(texts) -> dict[str, str]:
    """Read settings of NCCL: ``["NCCL_ALGO=Ring"]`` gives ``{"NCCL_ALGO": "Ring"}``; BenchError for anything else."""
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not re.fullmatch(r"NCCL_[A-Z0-9_]+", name) or not equals or not value:
            raise BenchError(f"--nccl {text}: NCCL_NAME=VALUE is needed, such as NCCL_ALGO=Ring")
        found[name] = value
    return found


def refuse_what_does_not_fit(size_bytes: int, copies: int, ranks: int):
    """Refuse messages that would not fit into memory: a BenchError says which size would.

    `size_bytes` is the largest, and each of the `ranks` on this host holds so many `copies` at once.
    """
    free, needed = available_bytes(), copies * size_bytes * ranks
    if needed > free:
        fits = free // (copies * ranks) // ITEM_BYTES * ITEM_BYTES
        raise BenchError(
            f"messages of {size_bytes:,} bytes need about {needed / 1e6:,.0f} MB ({copies} copies "
            f"on each of {plural(ranks, 'rank')}), and this host has {free / 1e6:,.0f} MB "
            f"left: --max-bytes {fits} would fit"
        )


# ---------------------------------------------------------------- where the bytes go


def link(interface: str, hosts: int = 2) -> str:
    """Say in words over what TCP's bytes travel, as far as this host knows.

    The name of the `interface` is empty where it is not known. On one host the kernel goes through memory, whichever
    interface an address belongs to. BenchError, as `address`.
    """
    if interface:
        address(interface)
    if hosts == 1:
        bound = f", addresses of {interface}" if interface and interface != "lo" else ""
        return f"loopback (TCP inside this host{bound}, no network card)"
    if made := link_made_here():
        return f"TCP over {made}"
    if not interface:
        return "TCP between hosts over an interface that is not known here"
    rate = psutil.net_if_stats()[interface].speed
    speed = f"{rate:,} Mbit/s, according to its driver" if rate else "its driver gives no rate"
    return f"TCP between hosts over {interface} ({speed})"


def address(interface: str) -> str:
    """Return the IPv4 address of a network interface of this host; a BenchError lists those that have one."""
    interfaces = addresses()
    if interface not in interfaces:
        raise BenchError(
            f"--interface {interface}: there is none with an IPv4 address on this "
            f"host; there are: {', '.join(sorted(interfaces))}"
        )
    return interfaces[interface]


def link_bytes(variant: str, size_bytes: float, hosts: int, ranks_per_host: int) -> float:
    """Return how many bytes one host has to send to others, headers not counted.

    A ring of N ranks passes on 2 (N − 1)/N of the message from each rank to the next (Patarasuk & Yuan 2009, "Bandwidth
    optimal all-reduce algorithms for clusters of workstations", section 3.2: N − 1 steps of reduce-scatter and as many
    of all-gather, of 1/N of the message each). How much of it leaves a host depends on the order: one of its ranks has
    its neighbour elsewhere, or all. In a hierarchy a ring has one rank of each host: there are n rings, each for 1/n of
    the message, or one for all of it. N is `hosts` × n, and n `ranks_per_host`.
    """
    if variant not in VARIANTS:
        raise BenchError(f"variant {variant!r} is not one of: {', '.join(VARIANTS)}")
    ranks = hosts * ranks_per_host
    round_ = 2 * (ranks - 1) / ranks * size_bytes
    if variant == "crossing ring":
        return ranks_per_host * round_ if hosts > 1 else 0.0
    if variant in ("hierarchical", "leaders"):
        return 2 * (hosts - 1) / hosts * size_bytes
    return round_ if hosts > 1 else 0.0
