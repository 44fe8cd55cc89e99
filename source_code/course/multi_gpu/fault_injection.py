"""Fault injection: kill a rank of a run and measure the cost."""

import contextlib
import math
import statistics
import threading
import time
from collections.abc import Iterable

import pandas

from ddl.errors import InputError, NotFound
from ddl.follow.restarts import STEPS
from ddl.follow.run import Run

LOOK_S = 0.05


def kill_at(run: Run, rank: int, step: int) -> Run:
    """Kill a rank once the run has recorded `step`, follow the run to its end, and return it."""
    killed = threading.Event()

    def kill():
        watched = Run(run.folder)  # one per thread, because it keeps its position
        while not (progress := watched.progress()).over and not killed.is_set():
            if (progress.step or 0) >= step:
                with contextlib.suppress(NotFound):  # it has not started yet, or has ended
                    watched.kill_rank(rank)
                    killed.set()
            time.sleep(LOOK_S)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        run.wait()
    except BaseException:  # also on interrupts: don't kill anything later
        killed.set()
        raise
    thread.join()
    if not killed.is_set():
        raise InputError(f"run {run.id} ({run.name}) was {run.state} before rank {rank} could be killed at step {step}")
    return run


def costs(runs: Iterable[Run]) -> pandas.DataFrame:
    """Tabulate the cost of each run's first failure.

    `step_s` and `checkpoint_s` are wall-clock seconds: of a step including everything between steps (checkpoints,
    evaluations), and of the pause for a checkpoint.
    """
    return pandas.DataFrame(
        [
            {
                "run": run.name,
                "killed at step": restart.step,
                "resumed from": restart.resumed_at,
                "steps twice": restart.repeated,
                "lost_s": restart.lost_s,
                "step_s": step_s(run),
                "checkpoint_s": checkpoint_s(run),
            }
            for run in runs
            for restart in run.restarts[:1]
        ]
    ).set_index("run")


def step_s(run: Run) -> float:
    """Return the seconds per step before the first restart; NaN with fewer than two recorded steps."""
    ends = run.restarts[0].time if run.restarts else math.inf
    seen = [
        (event["time"], event["step"]) for event in run.events() if event["event"] in STEPS and event["time"] < ends
    ]
    if len(seen) < 2 or seen[-1][1] == seen[0][1]:
        return math.nan
    return (seen[-1][0] - seen[0][0]) / (seen[-1][1] - seen[0][1])


def checkpoint_s(run: Run) -> float:
    """Return the median pause for a checkpoint in seconds; NaN without checkpoints."""
    said = [event.get("seconds") for event in run.events() if event["event"] == "checkpoint"]
    return statistics.median([seconds for seconds in said if seconds is not None] or [math.nan])
