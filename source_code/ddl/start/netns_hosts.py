"""Run ranks on several hosts made on one machine: ``python -m ddl.start.netns_hosts FOLDER``.

Each host is a network namespace with its own name, whose interface sends no faster than the rate; all hosts share this
machine's processor, memory and disk. They are made inside a namespace of this process: the machine's network is never
touched, root is not needed if the kernel lets users make namespaces, and the kernel removes them when the last of these
processes ends. Linux only.
"""

import os
import shutil
import subprocess
import sys

from ddl.job.run_options import RunOptions
from ddl.job.site import Site
from ddl.records.machine import cores_of_host
from ddl.records.network import INTERFACE, RATE
from ddl.start import one_host
from ddl.start.fast_exit import libc
from ddl.start.one_host import OneHost
from ddl.start.supervisor import enter_folder

INSIDE = "DDL_HOSTS_INSIDE"  # set once this process is in its own namespace
CLONE_NEWNET = 0x40000000
PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "mount": "mount", "ip": "iproute2", "tc": "iproute2"}
# Bytes that may pass at full speed after a pause; with less, the kernel wakes up too rarely to reach the rate.
BURST_BYTES = 16 * 1024
QUEUE_MS = 50  # packets that wait longer are dropped, and TCP slows down


def site(rate_mbit: int = 1000, hosts: int = 2) -> Site:
    """Return a site that splits this machine into several hosts, for ``launch(..., site=hosts.site())``.

    `rate_mbit` is the rate between them in each direction, in Mbit/s; 0 means no limit. With ``nodes=1`` the same site
    starts all ranks on this machine directly, without a slow network.
    """
    return Site(
        scheduler="namespaces",
        nodes=hosts,
        rate_mbit=rate_mbit,
        cores_per_node=cores_of_host(hosts),
        origin=f"this machine as {hosts} hosts",
    )


def permitted() -> str:
    """Say why hosts cannot be made here (a program is missing, or the kernel refuses); empty if they can."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=environment()["PATH"])]
    if missing:
        packages = dict.fromkeys(PROGRAMS[name] for name in missing)
        return f"{' and '.join(missing)} not found (on Debian and Ubuntu: apt-get install {' '.join(packages)})"
    steps = "mount --bind /etc/passwd /etc/hosts", "ip link add one type veth", f"tc qdisc add dev one root {limit(1)}"
    attempt = [*unshare(), "sh", "-c", " && ".join(steps)]
    tried = subprocess.run(attempt, env=environment(), capture_output=True, text=True)
    return f"the kernel refuses: {' '.join(tried.stderr.split())}" if tried.returncode else ""


def address(host: int) -> str:
    """Return the IPv4 address of a host, counted from 0, in a block that is reserved for examples."""
    return f"192.0.2.{host + 1}"


def environment() -> dict[str, str]:
    """Return this environment with the folders of administration programs on the path."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}


def unshare() -> tuple[str, ...]:
    """Return the words that start a command with its own network, name and mounts."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *user, "--net", "--uts", "--mount")


def limit(rate_mbit: int) -> str:
    """Return the words of ``tc`` for a rate: a token bucket filter."""
    return f"tbf rate {rate_mbit}mbit burst {BURST_BYTES} latency {QUEUE_MS}ms"


def main():
    if INSIDE not in os.environ:
        if reason := permitted():
            sys.exit(f"hosts cannot be made on this machine: {reason}")
        argv = [*unshare(), sys.executable, "-m", "ddl.start.netns_hosts", *sys.argv[1:]]
        os.execvpe(argv[0], argv, {**environment(), INSIDE: "1"})
    enter_folder(f"hosts-{os.getpid()}")
    one_host.main(NetnsHosts)


class NetnsHosts(OneHost):
    """Makes the hosts, starts the ranks on them, and supervises these."""

    server_address, interface = address(0), INTERFACE

    def __init__(self, options: RunOptions):
        super().__init__(options)
        self._holders = []
        for name in [name for name in os.environ if name.startswith("SLURM") or name == INSIDE]:
            del os.environ[name]
        # GPUs of one machine would not use the network.
        os.environ |= {RATE: str(options.rate_mbit), "CUDA_VISIBLE_DEVICES": ""}

    def prepare(self) -> None:
        self._make()
        with open(f"/proc/{self._holders[0].pid}/ns/net") as network:
            libc.setns(network.fileno(), CLONE_NEWNET)  # the rendezvous server listens there

    def start_rank(self, slot, prefix=(), **variables):
        host = slot.cross_rank
        return super().start_rank(slot, _enter(self._holders[host]), DDL_ADDRESS=address(host), **variables)

    def _make(self):
        """Make the hosts and connect them."""
        names = [f"host{number}" for number in range(self.options.nodes)]
        # Every host knows all names. Gloo looks up its own host's address by name, because Horovod 0.28.1 loses the
        # interface that it was given (gloo_context.cc, InitializeForProcessSet).
        names_file = self.folder.path / "hosts"
        names_file.write_text(
            "127.0.0.1 localhost\n" + "".join(f"{address(number)} {name}\n" for number, name in enumerate(names))
        )
        _run("mount", "--bind", names_file, "/etc/hosts")
        self._holders = [_holder(name) for name in names]
        if len(self._holders) == 2:
            first, second = (("name", INTERFACE, "netns", holder.pid) for holder in self._holders)
            _run("ip", "link", "add", *first, "type", "veth", "peer", *second)
        else:
            _run("ip", "link", "add", "bridge", "type", "bridge")
            _run("ip", "link", "set", "bridge", "up")
        for number, holder in enumerate(self._holders):
            if len(self._holders) > 2:
                port = f"port{number}"
                _run("ip", "link", "add", INTERFACE, "netns", holder.pid, "type", "veth", "peer", "name", port)
                _run("ip", "link", "set", port, "master", "bridge", "up")
                self._slow(port)  # several hosts may send to one at the same time
            inside = _enter(holder)
            # Without IPv6 addresses, every library finds the same route to a host.
            _run(*inside, "ip", "link", "set", INTERFACE, "addrgenmode", "none")
            _run(*inside, "ip", "address", "add", f"{address(number)}/24", "dev", INTERFACE)
            _run(*inside, "ip", "link", "set", INTERFACE, "up")
            _run(*inside, "ip", "link", "set", "lo", "up")
            self._slow(INTERFACE, inside)

    def _slow(self, interface, inside=()):
        if self.options.rate_mbit:
            _run(*inside, "tc", "qdisc", "add", "dev", interface, "root", *limit(self.options.rate_mbit).split())


def _holder(name):
    """Start the process whose namespaces make a host. It does nothing, and ends with this one."""
    code = f"import socket, sys; socket.sethostname({name!r}); print(flush=True); sys.stdin.read()"
    command = ["unshare", "--net", "--uts", sys.executable, "-c", code]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if not holder.stdout.readline():
        raise OSError(f"{name} did not start")
    return holder


def _enter(holder):
    """Return the words that start a command on a host."""
    return ("nsenter", f"--net=/proc/{holder.pid}/ns/net", f"--uts=/proc/{holder.pid}/ns/uts")


def _run(*argv):
    ran = subprocess.run([str(word) for word in argv], capture_output=True, text=True)
    if ran.returncode:
        raise OSError(f"hosts could not be made: {ran.stderr.strip() or argv}")


if __name__ == "__main__":
    main()
