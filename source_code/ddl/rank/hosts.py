"""Several hosts on one machine, with a slow network between them: ``python -m ddl.rank.hosts``.

    python -m ddl.rank.hosts --hosts 2 --rate-mbit 1000 --processes 4 python -m ddl.rank ...

Each host is a network namespace with a name of its own, whose interface sends no faster than the rate; all share this
machine's processor, memory and disk. They are made inside a namespace of this process: the machine's own network is
never touched, root is not needed where the kernel lets users make namespaces, and the kernel removes them with the last
of these processes, however it ends. Linux only.
"""

import os
import subprocess
import sys

from ddl.launcher.commands import HostsCommand
from ddl.launcher.hosts import (
    address,
    environment,
    limit,
    permitted,
    site,  # noqa: F401  earlier pages import it from here
    unshare,
)
from ddl.rank.ending import libc
from ddl.rank.one_host import OneHost
from ddl.rank.supervisor import enter_folder
from ddl.records.log import keep_writing
from ddl.records.network import INTERFACE, RATE

INSIDE = "DDL_HOSTS_INSIDE"  # set in the process that has a namespace of its own already
CLONE_NEWNET = 0x40000000


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
