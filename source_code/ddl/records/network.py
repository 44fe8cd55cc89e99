"""How this host is joined to others: its interfaces, and the link of a host made on one machine."""

import os
import socket

import psutil

INTERFACE = "eth0"  # of a host made on one machine
RATE = "DDL_RATE_MBIT"  # tells each rank on such a host how fast it is


def addresses() -> dict[str, str]:
    """Return the IPv4 address of each network interface of this host that has one."""
    return {
        name: entry.address
        for name, entries in psutil.net_if_addrs().items()
        for entry in reversed(entries)  # the first one counts
        if entry.family == socket.AF_INET
    }


def interface_of(address: str) -> str:
    """Return the name of the interface that has this IPv4 address; empty where there is none."""
    known = psutil.net_if_addrs()
    return next((name for name in known if address in (entry.address for entry in known[name])), "")


def link_made_here() -> str:
    """Describe what joins this host to others; empty on a host that was not made by `ddl.rank.hosts`.

    The interface's driver would say 10,000 Mbit/s, whatever the limit.
    """
    rate = os.environ.get(RATE)
    if rate is None:
        return ""
    limit = f"limited to {int(rate):,} Mbit/s" if int(rate) else "without a limit"
    return f"{INTERFACE}, {limit}, between hosts made on this machine"
