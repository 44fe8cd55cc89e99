"""Several hosts on one machine, with a slow network between them: ``python -m ddl.rank.hosts``.

    python -m ddl.rank.hosts --hosts 2 --rate-mbit 1000 --ranks 4 python -m ddl.rank.task ... COMMAND

Each host is a network namespace with a name of its own, whose interface sends no faster than the rate; all share this
machine's processor, memory and disk. They are made inside a namespace of this process: the machine's own network is
never touched, root is not needed where the kernel lets users make namespaces, and the kernel removes them with the last
of these processes, however it ends. Linux only.
"""

import os
import subprocess
import sys

from ddl.launcher import processes
from ddl.launcher.commands import HostsCommand
from ddl.launcher.hosts import (
    address,
    environment,
    limit,
    permitted,
    site,  # noqa: F401  earlier pages import it from here
    unshare,
)
from ddl.rank.slot import slots
from ddl.rank.supervisor import Supervisor, enter_folder
from ddl.records.log import keep_writing
from ddl.records.network import INTERFACE, RATE

INSIDE = "DDL_HOSTS_INSIDE"  # set in the process that has a namespace of its own already
FAILURE_GRACE_S = 1.0  # when one rank has failed, let the others record what they saw


def main():
    command = HostsCommand.of_this_process()
    if INSIDE not in os.environ:
        if reason := permitted():
            sys.exit(f"several hosts cannot be made on this machine: {reason}")
        argv = [*unshare(), sys.executable, "-m", "ddl.rank.hosts", *sys.argv[1:]]
        os.execvpe(argv[0], argv, {**environment(), INSIDE: "1"})
    enter_folder(f"hosts-{os.getpid()}")
    keep_writing()
    sys.exit(Hosts(command).run())


class Hosts(Supervisor):
    """Makes the hosts, starts a task for each rank, and supervises them."""

    grace_s = 5.0  # a task kills its rank after two seconds

    def __init__(self, options: HostsCommand):
        super().__init__()
        self.options = options
        self.holders = []
        self.tasks = []
        self.lifeline, self._held = os.pipe()  # the tasks' standard input

    def run(self) -> int:
        """Run the command as every rank; return the exit status of the whole."""
        self.record("launched", pid=os.getpid())
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError) as error:
            message = (getattr(error, "stderr", "") or str(error)).strip()
            print(f"several hosts could not be made: {message}", file=sys.stderr, flush=True)
            self.record("ended", state="failed", reason="launch", message=message)
            return 1
        self._start()
        for task in self.tasks:
            task.wait()
        # What is left are children that a rank left behind.
        processes.end(self.run_id, besides={os.getpid()}, mark="DDL_RANKS_OF")
        return self._end()

    # ---------------------------------------------------------------- making

    def _make(self):
        """Make the hosts and what joins them."""
        names = [f"host{number}" for number in range(self.options.hosts)]
        # Every host knows all names. Gloo looks up its own host's address by name: Horovod 0.28.1
        # loses the interface that it was given (gloo_context.cc, InitializeForProcessSet).
        names_file = self.folder.path / "hosts"
        names_file.write_text(
            "127.0.0.1 localhost\n" + "".join(f"{address(number)} {name}\n" for number, name in enumerate(names))
        )
        _run("mount", "--bind", names_file, "/etc/hosts")
        self.holders = [_holder(name) for name in names]
        if len(self.holders) == 2:
            first, second = (("name", INTERFACE, "netns", holder.pid) for holder in self.holders)
            _run("ip", "link", "add", *first, "type", "veth", "peer", *second)
        else:
            _run("ip", "link", "add", "bridge", "type", "bridge")
            _run("ip", "link", "set", "bridge", "up")
        for number, holder in enumerate(self.holders):
            if len(self.holders) > 2:
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
        if self.options.rate_mbit:
            _run(*inside, "tc", "qdisc", "add", "dev", interface, "root", *limit(self.options.rate_mbit).split())

    # ---------------------------------------------------------------- the ranks

    def _start(self):
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("SLURM") and name != INSIDE
        }
        # GPUs of one machine would talk to each other past the network.
        inherited |= {"DDL_LIFELINE": "stdin", RATE: str(self.options.rate_mbit), "CUDA_VISIBLE_DEVICES": ""}
        for slot in slots(self.options.ranks, self.options.hosts):
            command = [*_enter(self.holders[slot.cross_rank]), *self.options.command]
            task = subprocess.Popen(command, stdin=self.lifeline, env={**inherited, **slot.variables})
            self.tasks.append(task)
            self.follow(task)
            self.watch(self._await, task)

    def _await(self, task):
        """Wait for a task; when it has failed, end the others."""
        if task.wait() and not self.stopping.wait(FAILURE_GRACE_S):
            self.end_processes()

    def _end(self):
        """Record how the run ended; return an exit status."""
        from ddl.launcher.progress import end_of, launcher_events

        for rank, task in enumerate(self.tasks):
            if not self.folder.exit(rank).exists():  # it was killed, and could not say
                self.record_exit(rank, task.returncode)
        self.folder.free_reserved_space()
        end = end_of(launcher_events(self.folder, len(self.tasks), alive=False))
        if end is None:  # the disk took none of it
            failed = any(task.returncode for task in self.tasks)
            end = {"state": "failed" if failed else "done", "reason": "storage"}
        self.record("ended", **{name: value for name, value in end.items() if name not in ("event", "time")})
        return 0 if end["state"] == "done" else 1

    # ---------------------------------------------------------------- what a supervisor asks

    def launcher_gone(self):
        os.close(self._held)  # so that all tasks hear of it, and record it


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
    subprocess.run([str(word) for word in argv], check=True, capture_output=True, text=True)


if __name__ == "__main__":
    main()
