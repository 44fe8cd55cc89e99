"""Benchmark of start-up time by number of ranks, and of Gloo's requests.

    python benchmarks/start_time.py [--ranks 1 2 4 8] [--site FILE] [--repeats 3]

First, real launches of a script that only imports, initializes Horovod and sums one number: seconds
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
from ddl.rank.rendezvous import BACKLOG, slots
from turns import Turns, take_turns

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
times["initialized"] = time.time()
assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum) == hvd.size()
times["summed"] = time.time()
print(json.dumps(times))
"""
BIG = 1000
PYTHONS = 5  # socketserver.TCPServer.request_queue_size


def start(ranks, script, site):
    """Launch once; return the seconds until the last rank was there, had imported, had summed."""
    run = launch(script, workers=ranks, threads=1, oversubscribe=True, site=site)
    times, created = [json.loads(run.logs(rank).splitlines()[-1]) for rank in range(ranks)], run.job["created"]
    return {
        "there": max(rank.started for rank in run.progress().ranks) - created,
        **{name: max(each[name] for each in times) - created for name in ("imported", "summed")},
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
    server.init(slots(ranks, nodes=1))
    processes = []
    for slot in slots(ranks, nodes=1):
        environment = {
            **os.environ,
            **slot.horovod,
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
            "HOROVOD_GLOO_TIMEOUT_SECONDS": "180",
            "HOROVOD_GLOO_IFACE": "lo",
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "START_GATE": str(gate),
            "OMP_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        processes.append(subprocess.Popen([sys.executable, script], env=environment, text=True, stdout=subprocess.PIPE))
    while len(list(gate.parent.iterdir())) < ranks:
        if any(process.poll() for process in processes):
            sys.exit("a rank ended before it reached the start")
        time.sleep(0.05)
    gate.touch()
    times = [json.loads(process.communicate()[0]) for process in processes]
    server.stop()
    return {"requests": Counting.requests, "init_s": max(each["initialized"] - each["gate"] for each in times)}


def requests_per_s(count=2000):
    """Return the server's requests per second for a missing key."""
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


def series(ranks, script, site, repeats):
    """Return the measurements: starts and rendezvous by number of ranks, and the server."""
    starts = {
        f"start of {number}": Turns(
            {"launch": lambda number=number: start(number, script, site)},
            repeats,
            "there after {there:.1f} s, imported after {imported:.1f} s, summed after {summed:.1f} s".format_map,
        )
        for number in ranks
    }
    meetings = {
        f"rendezvous of {number}": Turns(
            {
                "ours": lambda number=number: rendezvous(number, script, BACKLOG),
                "backlog of 5": lambda number=number: rendezvous(number, script, PYTHONS),
            },
            repeats,
            "{requests} requests, hvd.init() in {init_s:.2f} s".format_map,
        )
        for number in ranks
    }
    return {**starts, **meetings, "server": Turns({"ours": requests_per_s}, 1, "{:.0f} requests/s".format)}


def summary(rows, ranks):
    """Return the measurements' medians by number of ranks."""
    starts, meetings = {}, {}
    for number in ranks:
        if launches := [row["launch"] for row in rows.get(f"start of {number}", ())]:
            starts[number] = {part: median(each[part] for each in launches) for part in launches[0]}
        if pairs := rows.get(f"rendezvous of {number}"):
            meetings[number] = {
                "requests": median(row["ours"]["requests"] for row in pairs),
                "init_s": median(row["ours"]["init_s"] for row in pairs),
                "init_with_pythons_backlog_s": median(row["backlog of 5"]["init_s"] for row in pairs),
            }
    figures = {"starts": starts, "rendezvous": meetings}
    if meetings:
        most = max(meetings)
        figures["ratio"] = meetings[most]["init_s"] / meetings[most]["init_with_pythons_backlog_s"]
        figures["requests_per_ranks_squared"] = meetings[most]["requests"] / most**2
    if "server" in rows:
        figures["requests_per_s"] = rows["server"][0]["ours"]
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--site", help="a site file; default: this machine")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("build/start_time.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("DDL_RUNS_DIR", folder)
        script = Path(os.environ["DDL_RUNS_DIR"]) / "start.py"
        script.write_text(SCRIPT)
        report = take_turns(
            options.output,
            series(options.ranks, script, options.site, options.repeats),
            lambda rows: summary(rows, options.ranks),
            site=options.site,
            repeats=options.repeats,
        )
    print("\nranks   there   imported   summed      requests   hvd.init()   with a backlog of 5")
    for ranks in options.ranks:
        print(
            "{:5d} {there:6.1f} s {imported:8.1f} s {summed:6.1f} s {requests:12.0f} "
            "{init_s:9.2f} s {init_with_pythons_backlog_s:14.2f} s".format(
                ranks, **report["starts"][ranks], **report["rendezvous"][ranks]
            )
        )
    factor, served = report["requests_per_ranks_squared"], report["requests_per_s"]
    print(
        f"requests = {factor:.1f} x ranks squared; the server answers {served:.0f} a second: "
        f"{BIG} ranks would ask for {factor * BIG**2 / served / 60:.0f} minutes"
    )


if __name__ == "__main__":
    main()
