"""Several hosts on one machine, with a slow network between them: ``python -m ddl.rank.hosts``.

    python -m ddl.rank.hosts --hosts 2 --rate-mbit 1000 --processes 4 python -m ddl.rank ...

Each host is a network namespace with a name of its own, whose interface sends no faster than the rate; all share this
machine's processor, memory and disk. They are made inside a namespace of this process: the machine's own network is
never touched, root is not needed where the kernel lets users make namespaces, and the kernel removes them with the last
of these processes, however it ends. Linux only.
"""

import os
import shutil
import subprocess
import sys

from ddl.launcher.commands import HostsCommand
from ddl.launcher.site import Site
from ddl.rank.ending import libc
from ddl.rank.one_host import OneHost
from ddl.rank.supervisor import enter_folder
from ddl.records.log import keep_writing
from ddl.records.machine import cores_of_host
from ddl.records.network import INTERFACE, RATE

INSIDE = "DDL_HOSTS_INSIDE"  # set in the process that has a namespace of its own already
CLONE_NEWNET = 0x40000000
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


def main():
    command = HostsCommand.of_this_process()
    if INSIDE not in os.environ:
        if reason := permitted():
            sys.exit(f"several hosts cannot be made on this machine: {reason}")
        argv = [*unshare(), sys.executable, "-m", "ddl.rank.hosts", *sys.argv[1:]]
        os.execvpe(argv[0], argv, {**environment(), INSIDE: "1"})
    enter_folder(f"hosts-{os.getpid()}")
    keep_writing()
    sys.exit(Hosts(command).run(command, command.hosts))


class Hosts(OneHost):
    """Makes the hosts, starts the ranks on them, and supervises these."""

    server_address, interface = address(0), INTERFACE

    def __init__(self, options: HostsCommand):
        super().__init__()
        self._options = options
        self._holders = {}  # by number
        for name in [name for name in os.environ if name.startswith("SLURM") or name == INSIDE]:
            del os.environ[name]
        # GPUs of one machine would talk to each other past the network.
        os.environ |= {RATE: str(options.rate_mbit), "CUDA_VISIBLE_DEVICES": ""}

    def hosts(self, nodes: int) -> int:
        """Leave out hosts whose holder is gone, and with it all that ran there."""
        self._holders = {number: holder for number, holder in self._holders.items() if holder.poll() is None}
        return len(self._holders) or nodes

    def prepare(self, cluster: str) -> None:
        if not self._holders:
            self._make()
        first, holder = next(iter(self._holders.items()))
        self.server_address = address(first)
        if len(self._holders) == 1:  # the others are gone, and with the last of them the link between two
            (self.folder.path / "hosts").write_text(f"127.0.0.1 localhost host{first}\n")
            self.server_address, self.interface = "127.0.0.1", "lo"
        with open(f"/proc/{holder.pid}/ns/net") as network:
            libc.setns(network.fileno(), CLONE_NEWNET)  # where the ranks' server is to listen

    def start_rank(self, words, slot, **variables):
        number = list(self._holders)[slot.cross_rank]
        command = [*_enter(self._holders[number]), *words]
        own = self.server_address if len(self._holders) == 1 else address(number)
        return super().start_rank(command, slot, DDL_ADDRESS=own, **variables)

    def _make(self):
        """Make the hosts and what joins them."""
        names = [f"host{number}" for number in range(self._options.hosts)]
        # Every host knows all names. Gloo looks up its own host's address by name: Horovod 0.28.1
        # loses the interface that it was given (gloo_context.cc, InitializeForProcessSet).
        names_file = self.folder.path / "hosts"
        names_file.write_text(
            "127.0.0.1 localhost\n" + "".join(f"{address(number)} {name}\n" for number, name in enumerate(names))
        )
        _run("mount", "--bind", names_file, "/etc/hosts")
        self._holders = {number: _holder(name) for number, name in enumerate(names)}
        if len(self._holders) == 2:
            first, second = (("name", INTERFACE, "netns", holder.pid) for holder in self._holders.values())
            _run("ip", "link", "add", *first, "type", "veth", "peer", *second)
        else:
            _run("ip", "link", "add", "bridge", "type", "bridge")
            _run("ip", "link", "set", "bridge", "up")
        for number, holder in self._holders.items():
            if len(self._holders) > 2:
                port = f"port{number}"
                _run("ip", "link", "add", INTERFACE, "netns", holder.pid, "type", "veth", "peer", "name", port)
                _run("ip", "link", "set", port, "master", "bridge", "up")
                self._slow(port)  # several may send to one host at a time
            inside = _enter(holder)
            # Without IPv6 addresses there is one route to a host, which any library finds.
            _run(*inside, "ip", "link", "set", INTERFACE, "addrgenmode", "none")
            _run(*inside, "ip", "address", "add", f"{address(number)}/24", "dev", INTERFACE)
            _run(*inside, "ip", "link", "set", INTERFACE, "up")
            _run(*inside, "ip", "link", "set", "lo", "up")
            self._slow(INTERFACE, inside)

    def _slow(self, interface, inside=()):
        if self._options.rate_mbit:
            _run(*inside, "tc", "qdisc", "add", "dev", interface, "root", *limit(self._options.rate_mbit).split())


def _holder(name):
    """Start the process whose namespaces are a host: it does nothing, and ends with this one."""
    code = f"import socket, sys; socket.sethostname({name!r}); print(flush=True); sys.stdin.read()"
    command = ["unshare", "--net", "--uts", sys.executable, "-c", code]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if not holder.stdout.readline():
        raise OSError(f"{name} did not start")
    return holder


def _enter(holder):
    """What starts a command on a host."""
    return ("nsenter", f"--net=/proc/{holder.pid}/ns/net", f"--uts=/proc/{holder.pid}/ns/uts")


def _run(*argv):
    ran = subprocess.run([str(word) for word in argv], capture_output=True, text=True)
    if ran.returncode:
        raise OSError(f"several hosts could not be made: {ran.stderr.strip() or argv}")


if __name__ == "__main__":
    main()
