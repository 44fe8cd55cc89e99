"""Network interfaces of this host, and the limited link of a simulated host."""

import os
import socket

INTERFACE = "eth0"  # of a simulated host
RATE = "DDL_RATE_MBIT"  # variable with the rate of its link, for each rank there


def addresses() -> dict[str, str]:
    """Return the first IPv4 address of each network interface of this host."""
    import psutil  # takes 10 ms, which would delay every start

    return {
        name: entry.address
        for name, entries in psutil.net_if_addrs().items()
        for entry in reversed(entries)
        if entry.family == socket.AF_INET
    }


def interface_of(address: str) -> str:
    """Return the name of the interface with this IPv4 address, or an empty string."""
    import psutil

    known = psutil.net_if_addrs()
    return next((name for name in known if address in (entry.address for entry in known[name])), "")


def link_made_here() -> str:
    """Describe the link of a host simulated by `ddl.start.netns_hosts`; empty on any other host.

    The interface's driver reports 10,000 Mbit/s regardless of the limit.
    """
    rate = os.environ.get(RATE)
    if rate is None:
        return ""
    limit = f"limited to {int(rate):,} Mbit/s" if int(rate) else "without a limit"
    return f"{INTERFACE}, {limit}, between hosts made on this machine"
