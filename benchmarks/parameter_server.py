"""Benchmark of parameter-server training with a slow or lost process.

    python benchmarks/parameter_server.py [--repeats 3]

Each case is a launch of strategies/parameter_server.py with two workers. In "held", worker 1 is stopped for nine of
every ten tenths of a second; in "stopped", it is stopped for good while the other continues; in "worker lost" and
"server lost" that process is killed. Updates are counted from the twentieth. The records go to
results/reference/parameter-server.jsonl, and `strategies_table` of course.multi_gpu.agreement shows them.
"""

import argparse
import contextlib
import json
import os
import signal
import time

from ddl import launch
from ddl.records.machine import hardware
from ddl.records.paths import reference_dir

BEGIN, UPDATES = 20, 150
QUIET_S = 8.0  # without an update, after which it counts as waiting
HELD_S, FREE_S = 0.9, 0.1
SHAPE = {"train_samples": 10_000, "test_samples": 500, "data_set": "synthetic", "steps": 20_000, "global_batch": 16}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    rows = []
    for repeat in range(given.repeats):
        for case in (plain, held):
            rows.append({"repeat": repeat, **measured(case)})
            print(rows[-1], flush=True)
    rows += [measured(case) for case in (stopped, worker_lost, server_lost)]
    about = {"hardware": hardware(), "recorded": time.strftime("%Y-%m-%d"), "workers": 2}
    path = reference_dir() / "parameter-server.jsonl"
    path.write_text("".join(json.dumps({**row, **about}) + "\n" for row in rows))
    print(path)


def measured(case):
    """Launch, let `case` observe or disturb the run from the twentieth update, and return its findings."""
    run = launch(
        "strategies/parameter_server.py", workers=2, cluster="parameter_server", threads=1, oversubscribe=True,
        wait=False, **SHAPE,
    )  # fmt: skip
    try:
        while updates(run) < BEGIN:
            time.sleep(0.05)
            if run.state == "failed":
                raise SystemExit(run.failure.sentence)
        pids = {info.role: info.pid for info in run.progress().ranks}
        found = case(run, pids)
    finally:
        for info in run.progress().ranks:
            send(info.pid, signal.SIGCONT)
        run.stop()
    return {"case": case.__name__.replace("_", " "), **found}


def updates(run):
    """Return the last update that the coordinator noted; it notes one in half a second."""
    return max((event["step"] for event in run.events() if event["event"] == "step"), default=0)


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def plain(run, pids, disturb=lambda: time.sleep(0.05)):
    """Count updates per second."""
    first, begun = updates(run), time.monotonic()
    while updates(run) < first + UPDATES and time.monotonic() < begun + 60:
        disturb()
    return {"updates_per_s": (updates(run) - first) / (time.monotonic() - begun)}


def held(run, pids):
    """Count updates per second with one worker slowed down."""

    def disturb():
        send(pids["worker 1"], signal.SIGSTOP)
        time.sleep(HELD_S)
        send(pids["worker 1"], signal.SIGCONT)
        time.sleep(FREE_S)

    return plain(run, pids, disturb)


def stopped(run, pids):
    """Stop a worker for good; measure how long the others' updates go on, until there is none for a while."""
    send(pids["worker 1"], signal.SIGSTOP)
    begun, last, since = time.monotonic(), updates(run), time.monotonic()
    while time.monotonic() < since + QUIET_S and time.monotonic() < begun + 60:
        if (now := updates(run)) != last:
            last, since = now, time.monotonic()
        time.sleep(0.1)
    return {"went_on_s": since - begun, "quiet_s": time.monotonic() - since}


def worker_lost(run, pids):
    return lost(run, pids["worker 1"])


def server_lost(run, pids):
    return lost(run, next(pid for role, pid in pids.items() if role.startswith(("ps", "parameter"))))


def lost(run, pid):
    """Kill a process; return how the run ended, and after how many seconds."""
    begun = time.monotonic()
    send(pid, signal.SIGKILL)
    run.wait()
    return {"went_on_s": time.monotonic() - begun, "state": run.state, "sentence": run.failure.sentence}


if __name__ == "__main__":
    main()
