"""What `bench_allreduce.py` and its like share: sizes, repeats, memory, and where bytes went.

The scripts do the measuring; this module needs neither TensorFlow nor Horovod.
"""

import re
import socket

import psutil

from ddl.rank.hosts import link as link_made_here
from ddl.records.machine import available_bytes
from ddl.training.options import Integer, Number

__all__ = [
    "DEFAULT_SIZES",
    "FLAT",
    "VARIANTS",
    "BenchError",
    "add_options",
    "address",
    "interface_of",
    "link",
    "nccl_settings",
    "parse",
    "refuse_what_does_not_fit",
    "repeats",
    "sizes",
    "timing",
]

# From one float32 number to 256 MiB, each four times the one before.
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


class BenchError(ValueError):
    """Something cannot be measured as it was asked for."""


def add_options(parser):
    """Give an argparse parser the options that both benchmarks have."""
    add = parser.add_argument
    a_size = Integer(ITEM_BYTES, 2**40)
    add("--min-bytes", type=a_size, default=DEFAULT_SIZES["min_bytes"], help="the smallest size")
    add("--max-bytes", type=a_size, default=DEFAULT_SIZES["max_bytes"], help="the largest size (default: 256 MiB)")
    add("--factor", type=Integer(2), default=DEFAULT_SIZES["factor"], help="from one size to the next")
    add("--sizes", type=a_size, nargs="+", metavar="BYTES", help="these instead, all multiples of four bytes")
    add("--repeats", type=Integer(), default=200, metavar="N", help="of each size, at most")
    add(
        "--seconds",
        type=Number(above=0),
        default=0.5,
        help=f"to spend on a size, after which it gets no more than {LEAST_REPEATS} repeats",
    )
    add("--interface", metavar="NAME", help="the network interface to use, such as eth0")


def parse(parser, arguments):
    """Parse a benchmark's options, and refuse there what could not be measured anywhere."""
    config = parser.parse_args(arguments)
    try:
        sizes(config)
        nccl_settings(getattr(config, "nccl", ()))
        if config.interface:
            address(config.interface)
    except BenchError as error:
        parser.error(str(error))
    return config


def sizes(config):
    """Return the sizes to measure, in bytes, growing.

    Parameters
    ----------
    config : argparse.Namespace
        With the options of `add_options`.

    Returns
    -------
    list of int

    Raises
    ------
    BenchError
        If a size is no whole number of float32 values, or there is no size between the limits.
    """
    if config.sizes:
        found = sorted(set(config.sizes))
    else:
        if config.min_bytes > config.max_bytes:
            raise BenchError(
                f"--min-bytes {config.min_bytes} --max-bytes {config.max_bytes}: the first must not be above the second"
            )
        found = [config.min_bytes]
        while found[-1] * config.factor <= config.max_bytes:
            found.append(found[-1] * config.factor)
    wrong = [size for size in found if size % ITEM_BYTES]
    if wrong:
        raise BenchError(
            f"a message of {wrong[0]} bytes: messages are float32 numbers, so their sizes are multiples of {ITEM_BYTES}"
        )
    return found


def repeats(config, seconds):
    """How often to repeat what took so many `seconds` once: as the budget allows, within limits."""
    return min(config.repeats, max(LEAST_REPEATS, int(config.seconds / max(seconds, 1e-9))))


def timing(seconds):
    """Return what a record keeps of repeated times: median, quartiles and the least, in seconds.

    Parameters
    ----------
    seconds : sequence of float
        At least one.

    Returns
    -------
    dict
        ``{"median": …, "low": …, "high": …, "least": …}``; low and high are quartiles.
    """
    from ddl.analysis.efficiency import spread  # here, as options need none of it

    return {**spread(seconds), "least": float(min(seconds))}


# ---------------------------------------------------------------- what is allowed


def nccl_settings(texts):
    """Read settings of NCCL: ``["NCCL_ALGO=Ring"]`` gives ``{"NCCL_ALGO": "Ring"}``.

    Raises
    ------
    BenchError
        For anything that is not ``NCCL_NAME=VALUE``.
    """
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not re.fullmatch(r"NCCL_[A-Z0-9_]+", name) or not equals or not value:
            raise BenchError(
                f"--nccl {text}: NCCL_NAME=VALUE is needed, such as NCCL_ALGO=Ring or "
                "NCCL_P2P_LEVEL=PHB; nothing else is set here"
            )
        found[name] = value
    return found


def refuse_what_does_not_fit(size_bytes, copies, ranks, free=None):
    """Refuse messages that would not fit into memory.

    Parameters
    ----------
    size_bytes : int
        Of the largest.
    copies : int
        That each rank holds at once: what is sent, what comes, and what the library needs.
    ranks : int
        On this host.
    free : int, optional
        By default `ddl.records.machine.available_bytes`.

    Raises
    ------
    BenchError
        If they don't fit; the message says which size would.
    """
    free = available_bytes() if free is None else free
    needed = copies * size_bytes * ranks
    if needed > free:
        fits = free // (copies * ranks) // ITEM_BYTES * ITEM_BYTES
        raise BenchError(
            f"messages of {size_bytes:,} bytes need about {needed / 1e6:,.0f} MB ({copies} copies "
            f"on each of {ranks} rank{'s' * (ranks > 1)}), and this host has {free / 1e6:,.0f} MB "
            f"left: --max-bytes {fits} would fit"
        )


# ---------------------------------------------------------------- where the bytes go


def link(interface, hosts=2):
    """Say in words over what TCP's bytes travel, as far as this host knows.

    Parameters
    ----------
    interface : str
        Name of the network interface; empty where it is not known.
    hosts : int
        How many hosts take part. On one the kernel takes the way through memory whatever
        interface an address belongs to.

    Returns
    -------
    str

    Raises
    ------
    BenchError
        If there is no such interface with an IPv4 address; the message lists those there are.
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
    said = f"{rate:,} Mbit/s as its driver says" if rate else "its driver says no rate"
    return f"TCP between hosts over {interface} ({said})"


def address(interface):
    """Return the IPv4 address of a network interface of this host.

    Raises
    ------
    BenchError
        If it has none, or isn't there.
    """
    there = _addresses()
    if interface not in there:
        raise BenchError(
            f"--interface {interface}: there is none with an IPv4 address on this "
            f"host; there are: {', '.join(sorted(there))}"
        )
    return there[interface]


def interface_of(address):
    """Return the name of the interface that has this IPv4 address; empty where none has."""
    return {own: name for name, own in _addresses().items()}.get(address, "")


def _addresses():
    """The IPv4 address of each network interface of this host that has one."""
    return {
        name: entry.address
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET
    }
