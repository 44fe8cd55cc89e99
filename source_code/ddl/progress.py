"""Where a run stands, computed from the files in its folder and from nothing else."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from ddl.record import RunFolder, read_json, read_json_lines, stack_of

__all__ = ["Failure", "Progress", "RankInfo", "end_of", "failure_of", "launcher_events",
           "one_record", "progress_of"]

OVER = ("done", "failed", "stopped", "lost")

# What ranks raise that merely notice that another one is gone.
SECONDARY = ("HorovodInternalError", "Horovod has been shut down", "Connection reset by peer",
             "Connection closed by peer")

# Slurm's words for ends that are nobody's fault in the script, and what to try.
SLURM_ENDS = {
    "OUT_OF_MEMORY": ("it needed more memory than it had asked for",
                      "Try a smaller batch or fewer workers, or ask for more: "
                      "scheduler_arguments = [\"--mem=...\"] in the site file."),
    "TIMEOUT": ("it reached its time limit",
                "Ask for more with time_limit in the site file, or train in pieces: "
                "--checkpoint-every, then --resume; a detached run does so by itself."),
    "DEADLINE": ("it reached its deadline", ""),
    "NODE_FAIL": ("a node failed", "Start it again; if it happens again, tell the cluster's "
                  "administrators which node it was."),
    "BOOT_FAIL": ("a node did not start", "Start it again."),
    "PREEMPTED": ("a job of higher priority took its place",
                  "Start it again, detached and with --checkpoint-every: then Slurm queues it "
                  "again and it goes on by itself."),
}

LESS_MEMORY = "Try a smaller batch, fewer workers, or more backward passes per step."
# What to try, by the type of exception; a script that gives up says so in its own words.
ADVICE = {
    "SystemExit": "",
    "ModuleNotFoundError": "Install it into the environment whose python the shell line names.",
    "FileNotFoundError": "A relative path starts in the folder that the shell line changes to.",
    "MemoryError": LESS_MEMORY,
    "ResourceExhaustedError": LESS_MEMORY,
}
ANY_ADVICE = "Mend what the last lines of the traceback point at, then run it again."
SECONDARY_ADVICE = ("Horovod says this in ranks that lose touch with another one: look at the "
                    "other logs.")


@dataclass(frozen=True)
class RankInfo:
    """One rank that has started."""

    rank: int
    host: str
    pid: int
    started: float


@dataclass(frozen=True)
class Failure:
    """Why a run failed, in the order in which a reader needs it."""

    sentence: str
    rank: int | None = None
    host: str | None = None
    type: str | None = None
    message: str = ""
    traceback: str = ""
    others: str = ""
    advice: str = ""
    logs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Progress:
    """A snapshot of a run: all that a view draws.

    Times are in seconds, `samples` and `steps` count from the start of training; `history` holds
    the evaluation events and `losses` pairs of (samples, loss). `waiting` says what a queued run
    waits for, in the scheduler's words.
    """

    id: str
    name: str
    state: str
    folder: Path
    shell_line: str = ""
    where: str = ""
    waiting: str = ""
    world: int = 0
    ranks: tuple[RankInfo, ...] = ()
    elapsed_s: float = 0.0
    remaining_s: float | None = None
    time_to_first_step_s: float | None = None
    step: int = 0
    steps: int | None = None
    epoch: float = 0.0
    epochs: float | None = None
    images_per_s: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    test_loss: float | None = None
    test_accuracy: float | None = None
    learning_rate: float | None = None
    data: dict | None = None
    history: tuple[dict, ...] = ()
    losses: tuple[tuple[int, float], ...] = ()
    notes: tuple[str, ...] = ()
    failure: Failure | None = field(default=None, repr=False)

    @property
    def over(self):
        """Whether the run has ended, one way or another."""
        return self.state in OVER


def progress_of(folder, *, alive=True, now=None, waiting=""):
    """Read a run folder.

    Parameters
    ----------
    folder : Path
    alive : bool
        Whether processes of the run are still there; without any, a run whose end was never
        written down is "lost".
    now : float, optional
        Seconds since the epoch.
    waiting : str
        What the run waits for in a queue; empty when it does not wait.

    Returns
    -------
    Progress
    """
    folder = RunFolder(Path(folder))
    now = time.time() if now is None else now
    job = read_json(folder.job) or {}
    world = job.get("workers", 0)
    launcher = launcher_events(folder, world, alive)
    events = one_record(read_json_lines(folder.events))
    ranks = () if waiting else tuple(
        RankInfo(there["rank"], there["host"], there["pid"], there["started"])
        for there in (read_json(folder.rank(rank)) for rank in range(world)) if there
    )
    end = end_of(launcher)
    if end and end["state"] == "done" and folder.requeue.exists():
        end = {**end, "state": "stopped"}  # it made way, with a checkpoint to go on from
    if alive and job.get("detached"):
        end = None  # a batch job goes on after that: it is queued again
    state = "queued" if waiting else _state(end, launcher, events, ranks, job, alive)
    created = job.get("created", now)
    last_sign = max([created, *(event["time"] for event in (*launcher, *events))])
    until = end["time"] if end else (last_sign if state == "lost" else now)
    facts = _training(events, created)
    return Progress(
        id=job.get("id", folder.path.name),
        name=job.get("name", ""),
        state=state,
        folder=folder.path,
        shell_line=job.get("shell_line", ""),
        where=job.get("where", ""),
        waiting=waiting,
        world=job.get("workers", 0),
        ranks=ranks,
        elapsed_s=until - created,
        remaining_s=_remaining(facts, events, now) if state == "training" else None,
        failure=failure_of(folder, job, launcher, events, state),
        **facts,
    )


def launcher_events(folder, world, alive):
    """What the launching side wrote down: the launcher, and on several nodes each rank's task.

    Parameters
    ----------
    folder : RunFolder
    world : int
        Number of ranks.
    alive : bool
        Whether tasks may still be there to write.
    """
    events = read_json_lines(folder.launcher)
    exits = [said for rank in range(world) if (said := read_json(folder.exit(rank)))]
    if exits:
        events = sorted([*events, *({"event": "rank_exit", **said} for said in exits)],
                        key=lambda event: event["time"])
        # Where one ended badly the others may have been killed before they could say anything.
        told = len(exits) == world or not alive and any(said["code"] for said in exits)
        if told and not end_of(events):
            events.append({"event": "ended", "time": events[-1]["time"], **_end_by_tasks(exits)})
    return events


def _end_by_tasks(exits):
    """How a run ended whose ranks were looked after one by one."""
    reasons = {said.get("reason"): said for said in exits}
    if "timeout" in reasons:
        missing = [said["rank"] for said in exits if not said.get("waits")]
        return {"state": "failed", "reason": "timeout",
                "missing": missing if len(missing) < len(exits) else []}
    if "launcher gone" in reasons:
        return {"state": "stopped", "reason": "launcher gone"}
    if "launch" in reasons:
        return {"state": "failed", "reason": "launch", "message": reasons["launch"]["message"]}
    if any(said["code"] and not said.get("reason") for said in exits):
        return {"state": "failed"}
    if any(said["code"] for said in exits):
        return {"state": "stopped", "reason": "SIGTERM"}
    return {"state": "done"}


def end_of(launcher):
    """The event that ended the run's last start; None while it goes on."""
    last = None
    for event in launcher:
        if event["event"] == "launched":
            last = None  # queued again, and started again
        elif event["event"] == "ended":
            last = event
    return last


def one_record(events):
    """Drop what a resumed training did over again: all that came after its checkpoint.

    Parameters
    ----------
    events : list of dict
        All events, in the order of writing; a ``start`` says after which step it goes on.
    """
    kept = []
    for event in events:
        if event["event"] == "start":
            done = event.get("step") or 0
            kept = [e for e in kept if e["event"] == "start" or (e.get("step") or 0) <= done]
        kept.append(event)
    return kept


def _state(end, launcher, events, ranks, job, alive):
    if end:
        return end["state"]
    if not launcher and not ranks:
        return "queued" if alive else "lost"
    if not alive:
        return "lost"
    if any(event["event"] in ("step", "evaluation") for event in events):
        return "training"
    return "running" if len(ranks) == job.get("workers") else "starting"


def _training(events, created):
    """Fold the training script's events into the fields of `Progress`."""
    facts = {"history": [], "losses": [], "notes": []}
    for event in events:
        kind = event["event"]
        if kind == "start":
            facts.update(steps=event.get("steps"), epochs=event.get("epochs"),
                         data=event.get("data"))
        elif kind == "note":
            facts["notes"].append(event["message"])
        elif kind in ("step", "evaluation"):
            if "time_to_first_step_s" not in facts:
                facts["time_to_first_step_s"] = event["time"] - created
            for name in ("step", "epoch", "images_per_s", "loss", "accuracy", "test_loss",
                         "test_accuracy", "learning_rate"):
                if event.get(name) is not None:
                    facts[name] = event[name]
            if kind == "evaluation":
                facts["history"].append(event)
            elif event.get("loss") is not None:
                facts["losses"].append((event.get("samples", 0), event["loss"]))
    return {name: tuple(value) if isinstance(value, list) else value
            for name, value in facts.items()}


def _remaining(facts, events, now):
    start = max((i for i, event in enumerate(events) if event["event"] == "start"), default=0)
    steps = [event for event in events[start:] if event["event"] == "step"]
    done = facts["step"] - steps[0]["step"] if steps else 0
    if done < 1 or not facts.get("steps"):
        return None
    per_step = (steps[-1]["time"] - steps[0]["time"]) / done
    return max(0.0, (facts["steps"] - facts["step"]) * per_step - (now - steps[-1]["time"]))


# ---------------------------------------------------------------- what went wrong


def failure_of(folder, job, launcher, events, state):
    """Find the first cause of a run's failure.

    Returns
    -------
    Failure or None
        None unless `state` is "failed" or "lost".
    """
    world = job.get("workers", 0)
    logs = tuple(path for rank in range(world) if (path := folder.log(rank)).exists())
    if folder.launcher_log.exists():
        logs += (folder.launcher_log,)
    errors = sorted(filter(None, (read_json(folder.error(rank)) for rank in range(world))),
                    key=lambda error: error["time"])
    exits = [event for event in launcher
             if event["event"] == "rank_exit" and event["code"] and not event.get("reason")]
    end = end_of(launcher) or {}
    if state == "lost":
        return Failure("the run's processes are gone and none of them wrote down why",
                       advice="Its machine may have been switched off, or its launcher killed. "
                              "Start it again.", logs=logs)
    if state != "failed":
        # A rank's error is shown as soon as it is there, while the others still run.
        return _raised(errors[0], folder, world, errors, events, logs) if (
            state not in OVER and errors and not _is_secondary(errors[0])) else None
    if end.get("slurm") in SLURM_ENDS:
        return _ended_by_slurm(end, errors, exits, logs)
    if end.get("reason") == "timeout":
        return _timed_out(end, job, folder, world, logs)
    if end.get("reason") == "launch":
        return Failure(f"the launcher failed before any rank ran: {end['message']}",
                       message=end["message"], traceback=end.get("log", ""), logs=logs,
                       advice="`ddl doctor` shows what this machine has and what is missing.")
    if end.get("reason") == "launcher killed":
        return Failure(f"the launcher was killed by {end['signal']}", logs=logs,
                       advice="If it was not you: the machine may be out of memory.")
    first = next((error for error in errors if not _is_secondary(error)), None)
    killed = next((event for event in exits if event["code"] > 128), None)
    if killed and not (first and first["time"] <= killed["time"]):
        return _killed(killed, folder, world, events, logs)
    if first or errors:
        return _raised(first or errors[0], folder, world, errors, events, logs)
    if exits:
        return Failure(f"rank {exits[0]['rank']} of {world} exited with status "
                       f"{exits[0]['code']} and no exception", rank=exits[0]["rank"],
                       advice="The end of its log may say more.", logs=logs)
    return Failure("the run failed and no rank said why", logs=logs,
                   advice="See the launcher's log.")


def _is_secondary(error):
    return any(sign in error["type"] or sign in error["message"] for sign in SECONDARY)


def _when(at, events, started):
    """Say when the moment `at` was: "3.2 s into epoch 2", or since the rank's start."""
    began = next((event["time"] for event in events if event["event"] in ("start", "step")), None)
    if began is None or at < began:
        return f"{at - started:.1f} s after it started" if started else "before it started"
    past = [event for event in events if event["event"] == "evaluation" and event["time"] <= at]
    epoch = int(past[-1].get("epoch") or 0) + 1 if past else 1
    return f"{at - (past[-1]['time'] if past else began):.1f} s into epoch {epoch}"


def _raised(error, folder, world, errors, events, logs):
    started = (read_json(folder.rank(error["rank"])) or {}).get("started")
    when = _when(error["time"], events, started)
    did = "gave up" if error["type"] == "SystemExit" else f"raised {error['type']}"
    other = [other for other in errors if other["rank"] != error["rank"]]
    others = "; ".join(f"rank {o['rank']} lost touch" if _is_secondary(o)
                       else f"rank {o['rank']} raised {o['type']}" for o in other)
    return Failure(
        sentence=f"rank {error['rank']} of {world} on {error['host']} {did} {when}",
        rank=error["rank"], host=error["host"], type=error["type"], message=error["message"],
        traceback=error["traceback"],
        others=others or ("the other ranks were ended" if world > 1 else ""),
        advice=SECONDARY_ADVICE if _is_secondary(error) else ADVICE.get(error["type"], ANY_ADVICE),
        logs=logs,
    )


def _killed(event, folder, world, events, logs):
    import signal

    rank, number = event["rank"], event["code"] - 128
    name = signal.Signals(number).name if number in list(signal.Signals) else f"signal {number}"
    there = read_json(folder.rank(rank)) or {}
    host = there.get("host", "its host")
    advice = {
        "SIGKILL": "Nothing in the script does that. The usual cause is the machine running out "
                   "of memory: try a smaller batch, fewer workers, or fewer samples.",
        "SIGSEGV": "A library crashed: look at the end of that rank's log.",
        "SIGABRT": "A library gave up: look at the end of that rank's log.",
    }.get(name, "")
    last_words = _last_lines(folder.log(rank))
    stacks = [(k, stack_of(folder.stack(k))) for k in range(world) if k != rank]
    said = f": {last_words[-1].strip()}" if name == "SIGABRT" and last_words else ""
    return Failure(
        sentence=f"rank {rank} of {world} on {host} was killed by {name} "
                 f"{_when(event['time'], events, there.get('started'))}{said}",
        rank=rank, host=host, type=name, advice=advice, logs=logs,
        traceback="\n".join([
            *([f"rank {rank}'s last words:", *last_words] if last_words else ()),
            *(f"rank {k} was here then (innermost call first):\n{stack}"
              for k, stack in stacks if stack)]),
        others="the other ranks were ended" if world > 1 else "",
    )


def _last_lines(path, count=8):
    if not path.exists():
        return []
    return [line for line in path.read_text(errors="replace").splitlines() if line.strip()][-count:]


def _ended_by_slurm(end, errors, exits, logs):
    why, advice = SLURM_ENDS[end["slurm"]]
    where = f" on {end['nodes']}" if end.get("nodes") else ""
    first = next((error for error in errors if not _is_secondary(error)), None)
    return Failure(
        sentence=f"Slurm ended job {end['job']}{where}: {why} ({end['slurm']})",
        type=end["slurm"], traceback=first["traceback"] if first else "",
        others="; ".join(f"rank {event['rank']} ended with status {event['code']}"
                         for event in exits),
        advice=advice, logs=logs,
    )


def _timed_out(end, job, folder, world, logs):
    missing = end.get("missing") or []
    stacks = {rank: stack_of(folder.stack(rank)) for rank in range(world)}
    who = " and ".join(f"rank {rank}" for rank in missing)
    waited = f": the others were waiting for {who}" if missing else ""
    shown = missing or sorted(stacks)
    return Failure(
        sentence=f"the run was ended at its time limit of {end.get('timeout_s') or job['timeout_s']:g} s{waited}",
        rank=missing[0] if missing else None, type="timeout",
        traceback="\n".join(f"rank {rank} was here (innermost call first):\n{stacks[rank]}"
                            for rank in shown if stacks[rank]),
        others="" if not missing else f"{who} never joined a collective operation (or "
        "hvd.init()) that the other ranks had reached",
        advice="Every rank must call the same collective operations in the same order."
        if missing else "Give it more time with timeout_s, or look where the ranks were.",
        logs=logs,
    )
