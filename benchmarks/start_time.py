"""How does a start scale with the number of ranks? Where its seconds go, and what Gloo asks for.

    python benchmarks/start_time.py [--ranks 1 2 4 8] [--site FILE] [--repeats 3]

First, real launches of a script that only imports, initialises Horovod and sums one number: seconds
from the launch until the last rank's process is there, until the last rank has imported, until the
sum. On a cluster `--site` says where; ranks share cores where there are too few.

Then Horovod's rendezvous alone, on this machine, with ranks that all have imported before: how many
requests N ranks send to its server, how long hvd.init() takes the slowest, and how many requests a
second the server answers. Gloo joins every pair of ranks, so requests grow with the square of N; the factor
at the largest N says what a start with a thousand ranks would ask for.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer, RendezvousServer

from ddl import launch
from ddl.rank.place import places
from ddl.rank.rendezvous import BACKLOG, host_plan
from ddl.records.jsonfiles import write_json
from ddl.records.machine import hardware, versions

SCRIPT = """
import json, os, time
import horovod.tensorflow as hvd
import tensorflow as tf

times = {"imported": time.time()}
gate = os.environ.get("START_GATE")  # wait for the other ranks' imports, then start all at once
if gate:
    open(gate + os.environ["HOROVOD_RANK"], "w").close()
    while not os.path.exists(gate):
        time.sleep(0.001)
times["gate"] = time.time()
hvd.init()
times["initialised"] = time.time()
assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum) == hvd.size()
times["summed"] = time.time()
print(json.dumps(times))
"""
BIG = 1000
PYTHONS = 5  # socketserver.TCPServer.request_queue_size


def start(ranks, script, site):
    """Launch once; return the seconds until the last rank was there, had imported, had summed."""
    run = launch(script, workers=ranks, threads=1, oversubscribe=True, site=site)
    said = [json.loads(run.logs(rank).splitlines()[-1]) for rank in range(ranks)]
    created = run.job["created"]
    return {
        "there": max(rank.started for rank in run.progress().ranks) - created,
        "imported": max(times["imported"] for times in said) - created,
        "summed": max(times["summed"] for times in said) - created,
    }


class Counting(RendezvousHandler):
    requests = 0

    def handle_one_request(self):
        Counting.requests += 1
        super().handle_one_request()


def rendezvous(ranks, script, backlog):
    """Start `ranks` processes on a server of our own; return its requests and hvd.init()'s time."""
    RendezvousHTTPServer.request_queue_size = backlog
    Counting.requests = 0
    gate = Path(tempfile.mkdtemp(dir=script.parent)) / "gate"
    server = RendezvousServer()
    port = server.start(Counting)
    server.init(host_plan(ranks, 1))
    processes = []
    for place in places(ranks, nodes=1):
        environment = {
            **os.environ,
            **place.horovod,
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
            "HOROVOD_GLOO_TIMEOUT_SECONDS": "180",
            "HOROVOD_GLOO_IFACE": "lo",
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "START_GATE": str(gate),
            "OMP_NUM_THREADS": "1",
            "TF_NUM_INTRAOP_THREADS": "1",
            "TF_NUM_INTEROP_THREADS": "1",
        }
        processes.append(subprocess.Popen([sys.executable, script], env=environment, text=True, stdout=subprocess.PIPE))
    while len(list(gate.parent.iterdir())) < ranks:
        if any(process.poll() for process in processes):
            sys.exit("a rank ended before it reached the start")
        time.sleep(0.05)
    gate.touch()
    said = [json.loads(process.communicate()[0]) for process in processes]
    server.stop()
    return {"requests": Counting.requests, "init_s": max(times["initialised"] - times["gate"] for times in said)}


def requests_per_s(count=2000):
    """How many requests for a key that is not there the server answers in a second."""
    server = RendezvousServer()
    port = server.start()
    began = time.perf_counter()
    for _ in range(count):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/global/0")
        connection.getresponse().read()
        connection.close()
    spent = time.perf_counter() - began
    server.stop()
    return count / spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--site", help="a site file; default: this machine")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("build/start_time.json"))
    options = parser.parse_args()
    starts, meetings = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("DDL_RUNS_DIR", folder)
        script = Path(os.environ["DDL_RUNS_DIR"]) / "start.py"
        script.write_text(SCRIPT)
        for ranks in options.ranks:
            taken = [start(ranks, script, options.site) for _ in range(options.repeats)]
            starts[ranks] = {part: median(each[part] for each in taken) for part in taken[0]}
        for ranks in options.ranks:
            # In turn, so that a change of the machine's speed meets both.
            pairs = [
                (rendezvous(ranks, script, BACKLOG), rendezvous(ranks, script, PYTHONS)) for _ in range(options.repeats)
            ]
            meetings[ranks] = {
                "requests": median(ours["requests"] for ours, _ in pairs),
                "init_s": median(ours["init_s"] for ours, _ in pairs),
                "init_with_pythons_backlog_s": median(theirs["init_s"] for _, theirs in pairs),
            }
    most = max(options.ranks)
    factor = meetings[most]["requests"] / most**2
    served = requests_per_s()
    print("\nranks   there   imported   summed      requests   hvd.init()   with a backlog of 5")
    for ranks in options.ranks:
        print(
            "{:5d} {there:6.1f} s {imported:8.1f} s {summed:6.1f} s {requests:12.0f} "
            "{init_s:9.2f} s {init_with_pythons_backlog_s:14.2f} s".format(ranks, **starts[ranks], **meetings[ranks])
        )
    print(
        f"requests = {factor:.1f} x ranks squared; the server answers {served:.0f} a second: "
        f"{BIG} ranks would ask for {factor * BIG**2 / served / 60:.0f} minutes"
    )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        options.output,
        {
            "ratio": meetings[most]["init_s"] / meetings[most]["init_with_pythons_backlog_s"],
            "starts": starts,
            "rendezvous": meetings,
            "requests_per_ranks_squared": factor,
            "requests_per_s": served,
            "site": options.site,
            "repeats": options.repeats,
            "date": time.strftime("%Y-%m-%d"),
            "hardware": hardware(),
            "versions": versions(),
        },
    )


if __name__ == "__main__":
    main()
