"""One rank of a job on several nodes: what ``srun`` starts, once for each rank.

    srun --nodes=2 --ntasks-per-node=2 ... python -m ddl.rank.task [OPTIONS] python -m ddl.rank ...

`ddl.rank.hosts` starts it, too, on hosts that it makes on this machine.

Without ssh and without MPI: rank, local rank and size come from who starts it (`ddl.rank.place`), and
the ranks meet through Horovod's own rendezvous server, which rank 0's task runs. Its address
travels in the run's folder, which all nodes see. (With ``--controller mpi`` they meet through PMIx
instead, and nothing of this is needed.)

The ranks of a cluster of tf.distribute (``--controller none``) find each other through their files
in that folder; all that they need to be told is this host's address.

Each task looks after its rank: says how it ended in ``exit-<k>.json``, ends it at the time limit,
and ends it when the notebook that started the job is gone.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from ddl.launcher import processes
from ddl.launcher.job import split_rank_line
from ddl.rank import cluster, rendezvous
from ddl.rank.place import VARIABLE, Place
from ddl.records.folder import RunFolder, StorageError
from ddl.records.jsonfiles import read_json
from ddl.records.log import keep_writing
from ddl.records.machine import host_name
from ddl.records.paths import runs_dir

__all__ = ["main"]

TERM_GRACE_S = 2.0
HOLD_S = 3.0  # when one rank ends, so do the others: let all say first where they are
MEET_S = 180  # as long as Gloo waits for a rank that starts late
LOOK_EVERY_S = 0.1


def main():
    options = _options()
    keep_writing()
    place = Place.here()
    folder = RunFolder(_folder())
    if place.rank == 0 and not folder.job.exists():
        _describe(folder, options.command, place.size)
    sys.exit(Task(place, folder).run(options))


def _options():
    parser = argparse.ArgumentParser(prog="ddl.rank.task")
    parser.add_argument("--controller", choices=("gloo", "mpi", "none"), default="gloo")
    parser.add_argument("--network-interface", default="")
    parser.add_argument("--timeout-s", type=float)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def _folder():
    """The run's folder; a line pasted into a terminal makes one, the same in every task."""
    if "DDL_RUN_DIR" not in os.environ:
        run_id = f"slurm-{cluster.attempt()}"
        folder = runs_dir() / run_id
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(f"{StorageError(error, folder)}")
        os.environ.update(DDL_RUN_ID=run_id, DDL_RUN_DIR=str(folder))
    return Path(os.environ["DDL_RUN_DIR"])


def _describe(folder, command, size):
    options, script, args = split_rank_line(command[command.index("ddl.rank") + 1 :])
    servers = int(options.get("--parameter-servers", 0))
    folder.write_json(
        folder.job,
        {
            "id": folder.path.name,
            "name": Path(script).stem,
            "created": time.time(),
            "script": script,
            "args": args,
            "workers": size - (servers and servers + 1),
            "cluster": options.get("--cluster", "horovod"),
            "parameter_servers": servers,
            "processes": size,
            "cwd": os.getcwd(),
            "shell_line": " ".join(command),
            "site": {"scheduler": "slurm"},
        },
    )


class Task:
    """Starts one rank and looks after it."""

    def __init__(self, place, folder):
        self.place = place
        self.rank = rank = place.rank
        self.folder = folder
        self.child = None
        self.ended_because = None
        self.started = time.time()
        self.waits = None
        self.absent = {}  # who never joined a cluster
        folder.exit(rank).unlink(missing_ok=True)  # an earlier start of a requeued job left it
        signal.signal(signal.SIGTERM, self._asked_to_stop)

    def run(self, options):
        """Run the command in `options` as this rank; return its exit status."""
        environment = {
            **os.environ,
            **self.place.horovod,
            "PYTHONUNBUFFERED": "1",
            "DDL_RANKS_OF": os.environ["DDL_RUN_ID"],
        }
        # Where one rank ends Slurm ends the others; `ddl.rank.hosts` may be what is gone.
        if (self.rank == 0 or VARIABLE in os.environ) and os.environ.get("DDL_LIFELINE"):
            self._watch(self._await_launcher, processes.take_lifeline())
        environment.pop("DDL_LIFELINE", None)
        try:
            if options.controller == "none":
                environment["DDL_ADDRESS"] = _own_address(options.network_interface)
            else:
                environment |= {"HOROVOD_CONTROLLER": options.controller, "HOROVOD_CPU_OPERATIONS": options.controller}
            if options.controller == "gloo":
                environment |= self._meet(options.network_interface)
            self.child = subprocess.Popen(options.command, env=environment, stdin=subprocess.DEVNULL)
        except (OSError, TimeoutError) as error:
            self._record(1, reason="launch", message=str(error))
            raise
        if self.ended_because:  # asked to stop before there was a child to tell
            self._end()
        if options.timeout_s:
            self._watch(self._await_timeout, options.timeout_s)
        if options.controller == "none" and self.rank == 0:
            self._watch(self._await_cluster)
        code = self.child.wait()
        code = 128 - code if code < 0 else code
        if code == 128 + signal.SIGTERM and not self.ended_because:
            time.sleep(0.2)  # Slurm tells both of us, in any order: ours may be on its way
        if self.ended_because:
            code = code or 1
        self._record(code, reason=self.ended_because, waits=self.waits, **self.absent)
        if self.rank == 0:
            self.folder.give_up_reserve()
        return code

    def _record(self, code, **fields):
        record = {
            "rank": self.rank,
            "host": host_name(),
            "code": code,
            "time": time.time(),
            **{name: value for name, value in fields.items() if value is not None},
        }
        try:
            self.folder.write_json(self.folder.exit(self.rank), record)
        except StorageError as error:
            print(f"{error}: {record}", file=sys.stderr, flush=True)

    # ---------------------------------------------------------------- meeting the other ranks

    def _meet(self, interface):
        """Return where the ranks meet, as HOROVOD_* variables; rank 0's task opens the place."""
        if self.rank == 0:
            self.server, port = rendezvous.server(self.place.size, self.place.nodes)
            there = {
                "address": _own_address(interface),
                "port": port,
                "attempt": cluster.attempt(),
                "time": time.time(),
            }
            self.folder.write_json(self.folder.rendezvous, there)
        else:
            there = self._find_rendezvous()
        self.started = there["time"]  # one for all, so that a time limit ends all at once
        interface = interface or _interface_towards(there["address"])
        return {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": there["address"],
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(there["port"]),
            "HOROVOD_GLOO_TIMEOUT_SECONDS": str(MEET_S),
            "HOROVOD_GLOO_IFACE": interface,
            "NCCL_SOCKET_IFNAME": interface,
        }

    def _find_rendezvous(self):
        deadline = time.monotonic() + MEET_S
        while time.monotonic() < deadline:
            there = read_json(self.folder.rendezvous)
            if there and there["attempt"] == cluster.attempt():
                return there
            os.listdir(self.folder.path)  # NFS remembers that a file was not there: look again
            time.sleep(LOOK_EVERY_S)
        raise TimeoutError(
            f"rank 0 did not say within {MEET_S} s where the ranks meet, in "
            f"{self.folder.rendezvous}: do all nodes share that folder?"
        )

    # ---------------------------------------------------------------- reasons to end early

    def _asked_to_stop(self, number, frame):
        self._end_because(signal.Signals(number).name)

    def _await_launcher(self, lifeline):
        os.read(lifeline, 1)  # returns when the other end is closed
        self._end_because("launcher gone")

    def _await_timeout(self, timeout_s):
        time.sleep(max(0.0, self.started + timeout_s - time.time()))
        self.waits = processes.waits(self.child.pid, self.folder.stack(self.rank))
        self._record(1, reason="timeout", waits=self.waits)
        time.sleep(HOLD_S)
        self._end_because("timeout")

    def _await_cluster(self):
        job = read_json(self.folder.job)
        them = cluster.roles(job["cluster"], job["workers"], job["parameter_servers"])
        if missing := cluster.first_absent(self.folder, them):
            gone = [rank for rank in missing if self.folder.exit(rank).exists()]
            self.absent = {"missing": missing, "gone": gone}
            self._end_because("absent")

    def _end_because(self, reason):
        self.ended_because = self.ended_because or reason
        if self.child:
            self._end()

    def _end(self):
        processes.send(self.child.pid, signal.SIGTERM)
        self._watch(self._kill)

    def _kill(self):
        time.sleep(TERM_GRACE_S)
        processes.send(self.child.pid, signal.SIGKILL)

    def _watch(self, function, *arguments):
        threading.Thread(target=function, args=arguments, daemon=True).start()


def _own_address(interface):
    """This host's address that other nodes reach: the interface's, or what its name stands for."""
    addresses = {
        name: [entry.address for entry in entries if entry.family == socket.AF_INET]
        for name, entries in psutil.net_if_addrs().items()
    }
    if interface:
        if not addresses.get(interface):
            raise OSError(
                f"network_interfaces: {host_name()} has no interface "
                f"{interface!r} with an IPv4 address; it has: {', '.join(addresses)}"
            )
        return addresses[interface][0]
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = "127.0.0.1"
    if not named.startswith("127."):
        return named
    stats = psutil.net_if_stats()
    others = [
        each[0] for name, each in addresses.items() if each and stats[name].isup and not each[0].startswith("127.")
    ]
    return others[0] if others else named


def _interface_towards(address):
    """Name of the interface that leads to `address`; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        own = probe.getsockname()[0]
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address == own for entry in entries):
            return name
    raise OSError(
        f"no interface of this host has the address {own} that leads to {address}; "
        "name one in the site file: network_interfaces"
    )


if __name__ == "__main__":
    main()
