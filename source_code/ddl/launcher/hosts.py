"""Several hosts on one machine: the site to ask for, and whether they can be made here. `ddl.rank.hosts` makes them."""

import os
import shutil
import subprocess

from ddl.launcher.site import Site
from ddl.records.machine import cores_of_host

PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "mount": "mount", "ip": "iproute2", "tc": "iproute2"}
# What may pass at full speed after a pause; with less, the kernel wakes up too rarely to reach the rate.
BURST_BYTES = 16 * 1024
QUEUE_MS = 50  # what waits longer than this is dropped, and TCP slows down


def site(rate_mbit: int = 1000, hosts: int = 2) -> Site:
    """Return a site where this machine stands for several hosts, for ``launch(..., site=hosts.site())``.

    Between them pass `rate_mbit` megabits a second in each direction; 0 is no limit. With ``nodes=1``
    the same site starts all ranks on this machine itself, without a slow network.
    """
    return Site(
        scheduler="namespaces",
        nodes=hosts,
        rate_mbit=rate_mbit,
        cores_per_node=cores_of_host(hosts),
        origin=f"this machine as {hosts} hosts",
    )


def permitted() -> str:
    """Say why hosts cannot be made here: what is missing, or what the kernel refuses; else empty."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=environment()["PATH"])]
    if missing:
        packages = dict.fromkeys(PROGRAMS[name] for name in missing)
        return f"{' and '.join(missing)} not here (Debian and Ubuntu: apt-get install {' '.join(packages)})"
    veth = "ip link add one type veth"
    attempts = {
        "this user may not make network namespaces here": "true",
        "this user may not give a process an /etc/hosts of its own": "mount --bind /etc/passwd /etc/hosts",
        "the kernel has no pairs of virtual interfaces (veth)": veth,
        "the kernel cannot limit the rate of an interface (tbf)": f"{veth} && tc qdisc add dev one root {limit(1000)}",
    }
    for reason, attempt in attempts.items():
        tried = subprocess.run([*unshare(), "sh", "-c", attempt], env=environment(), capture_output=True, text=True)
        if tried.returncode:
            message = " ".join(tried.stderr.split())
            return f"{reason}{f': {message}' if message else ''}"
    return ""


def address(host: int) -> str:
    """IPv4 address of a host, counted from 0, in a block that is reserved for examples."""
    return f"192.0.2.{host + 1}"


def environment() -> dict[str, str]:
    """This environment, with the folders that administrators' programs are in."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}


def unshare() -> tuple[str, ...]:
    """What starts a command with its own network, name and mounts."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *user, "--net", "--uts", "--mount")


def limit(rate_mbit: int) -> str:
    """The words of ``tc`` for a rate: a token bucket filter."""
    return f"tbf rate {rate_mbit}mbit burst {BURST_BYTES} latency {QUEUE_MS}ms"
