"""Where a run stands, computed from the files in its folder and from nothing else."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddl.launcher.failure import Failure, failure_of
from ddl.launcher.roles import role_of
from ddl.records.folder import RunFolder, processes_of, start_of
from ddl.records.jsonfiles import DamagedFile, JsonLines, read_json, read_json_lines

__all__ = ["JOB", "Progress", "RankInfo", "end_of", "events_of", "launcher_events", "one_record", "progress_of"]

GONE_S = 5.0  # ranks that end together do so within a second or two
OVER = ("done", "failed", "stopped", "lost", "damaged")
# What these files must hold to be of any use.
JOB = {"id": str, "created": (int, float), "workers": int}
RANK = {"rank": int, "host": str, "pid": int, "started": (int, float)}
EXIT = {"rank": int, "code": int, "time": (int, float)}
EVENT = {"event": str, "time": (int, float)}


@dataclass(frozen=True)
class RankInfo:
    """One rank that has started; `role` is its task in a cluster of tf.distribute."""

    rank: int
    host: str
    pid: int
    started: float
    role: str = ""


@dataclass(frozen=True)
class Progress:
    """A snapshot of a run: all that a view draws.

    Times are in seconds, `samples` and `steps` count from the start of training; `history` holds the evaluation events
    and `losses` pairs of (samples, loss). `waiting` says what a queued run waits for, in the scheduler's words;
    `stopped_by` who cancelled it, where accounting knows.
    """

    id: str
    name: str
    state: str
    folder: Path
    shell_line: str = ""
    where: str = ""
    waiting: str = ""
    stopped_by: str = ""
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
    def over(self) -> bool:
        """Whether the run has ended, one way or another."""
        return self.state in OVER


def events_of(folder: RunFolder) -> JsonLines:
    """What reads the script's events, from a `RunFolder`."""
    return JsonLines(folder.events, EVENT)


def progress_of(
    folder: str | Path,
    *,
    alive: bool = True,
    now: float | None = None,
    waiting: str = "",
    events: JsonLines | None = None,
    told: Iterable[dict] = (),
) -> Progress:
    """Read a run folder.

    A file that is damaged makes the run "damaged", and says which one and how; while its processes are there, it is a
    note of a run that goes on.

    Parameters
    ----------
    alive
        Whether processes of the run are still there; without any, a run whose end was never written down is "lost".
    now
        Seconds since the epoch.
    waiting
        What the run waits for in a queue; empty when it does not wait.
    events
        `events_of` the folder, where it is looked at again and again.
    told
        Events of the launching side that it could not write down.
    """
    paths = RunFolder(Path(folder))
    now = time.time() if now is None else now
    try:
        return _read(paths, alive, now, waiting, events or events_of(paths), list(told))
    except DamagedFile as error:
        state = "running" if alive else "damaged"
        return Progress(
            id=paths.path.name,
            name=paths.path.name,
            state=state,
            folder=paths.path,
            notes=(str(error),),
            failure=None
            if alive
            else Failure(
                str(error),
                type="damaged",
                advice="What else is in its folder can still be read. "
                "A disk that was full, or a copy that broke off, leaves such files; delete the "
                "folder when you don't need it.",
            ),
        )


def _read(folder: RunFolder, alive: bool, now: float, waiting: str, script: JsonLines, told: list[dict]) -> Progress:
    job = read_json(folder.job, JOB)
    if job is None:
        raise DamagedFile(f"{folder.job} is missing")
    world = processes_of(job)
    launcher = [*launcher_events(folder, world, alive), *told]
    events = one_record(script.look())
    ranks = (
        ()
        if waiting
        else tuple(
            RankInfo(there["rank"], there["host"], there["pid"], there["started"], role_of(job, there["rank"]))
            for there in (read_json(folder.rank(rank), RANK) for rank in range(world))
            if there
        )
    )
    end = end_of(launcher)
    if end and end["state"] == "done" and folder.requeue.exists():
        end = {**end, "state": "stopped"}  # it made way, with a checkpoint to go on from
    if alive and job.get("detached"):
        end = None  # a batch job goes on after that: it is queued again
    state = "queued" if waiting else _state(end, launcher, events, ranks, job, alive)
    created = job["created"]
    last_sign = max([created, *(event["time"] for event in (*launcher, *events))])
    until = end["time"] if end else (last_sign if state == "lost" else now)
    facts = _training(events, start_of(folder))
    if script.damaged:
        facts["notes"] += (f"{script.damaged} lines of {script.path} are damaged and left out",)
    if state in ("running", "training"):
        facts["notes"] += _gone(launcher, now)
    return Progress(
        id=job["id"],
        name=job.get("name", ""),
        state=state,
        folder=folder.path,
        shell_line=job.get("shell_line", ""),
        where=job.get("where", ""),
        waiting=waiting,
        stopped_by=(end or {}).get("by", ""),
        world=world,
        ranks=ranks,
        elapsed_s=until - created,
        remaining_s=_remaining(facts, events, now) if state == "training" else None,
        failure=failure_of(folder, job, launcher, events, state, end_of(launcher) or {}),
        **facts,
    )


def _gone(launcher: list[dict], now: float) -> tuple[str, ...]:
    """Name ranks that ended a while ago as if all were done: the others may wait for them."""
    began = max((event["time"] for event in launcher if event["event"] == "launched"), default=0.0)
    return tuple(
        f"rank {event['rank']} has ended with status 0, and others are still there"
        for event in launcher
        if event["event"] == "rank_exit" and not event["code"] and began <= event["time"] < now - GONE_S
    )


def launcher_events(folder: RunFolder, world: int, alive: bool) -> list[dict]:
    """What the launching side wrote down: the launcher, and on several nodes each rank's task.

    `world` is the number of ranks, `alive` whether tasks may still be there to write.
    """
    events = read_json_lines(folder.launcher, EVENT)
    exits = [said for rank in range(world) if (said := read_json(folder.exit(rank), EXIT))]
    if exits:
        events = sorted([*events, *({"event": "rank_exit", **said} for said in exits)], key=lambda event: event["time"])
        # Where one ended badly the others may have been killed before they could say anything.
        told = len(exits) == world or (not alive and any(said["code"] for said in exits))
        if told and not end_of(events):
            events.append({"event": "ended", "time": events[-1]["time"], **_end_by_tasks(exits)})
    return events


def _end_by_tasks(exits: list[dict]) -> dict:
    """How a run ended whose ranks were looked after one by one."""
    reasons = {said.get("reason"): said for said in exits}
    if "timeout" in reasons:
        missing = [said["rank"] for said in exits if not said.get("waits")]
        return {"state": "failed", "reason": "timeout", "missing": missing if len(missing) < len(exits) else []}
    if "absent" in reasons:
        return {
            "state": "failed",
            "reason": "absent",
            "missing": reasons["absent"]["missing"],
            "gone": reasons["absent"]["gone"],
        }
    if "launcher gone" in reasons:
        return {"state": "stopped", "reason": "launcher gone"}
    if "launch" in reasons:
        return {"state": "failed", "reason": "launch", "message": reasons["launch"]["message"]}
    if any(said["code"] and not said.get("reason") for said in exits):
        return {"state": "failed"}
    if any(said["code"] for said in exits):
        return {"state": "stopped", "reason": "SIGTERM"}
    return {"state": "done"}


def end_of(launcher: Iterable[dict]) -> dict | None:
    """The event that ended the run's last start; None while it goes on."""
    last = None
    for event in launcher:
        if event["event"] == "launched":
            last = None  # queued again, and started again
        elif event["event"] == "ended":
            last = event
    return last


def one_record(events: Iterable[dict]) -> list[dict]:
    """Drop what a resumed training did over again: all that came after its checkpoint.

    Of all `events`, in the order of writing, a ``start`` says after which step it goes on.
    """
    kept: list[dict] = []
    for event in events:
        if event["event"] == "start":
            done = event.get("step") or 0
            kept = [e for e in kept if e["event"] == "start" or (e.get("step") or 0) <= done]
        kept.append(event)
    return kept


def _state(
    end: dict | None, launcher: list[dict], events: list[dict], ranks: tuple[RankInfo, ...], job: dict, alive: bool
) -> str:
    if end:
        return end["state"]
    if not launcher and not ranks:
        return "queued" if alive else "lost"
    if not alive:
        return "lost"
    if any(event["event"] in ("step", "evaluation") for event in events):
        return "training"
    return "running" if len(ranks) == processes_of(job) else "starting"


def _training(events: list[dict], began: float | None) -> dict[str, Any]:
    """Fold the training script's events into the fields of `Progress`."""
    facts: dict[str, Any] = {"history": [], "losses": [], "notes": []}
    for event in events:
        kind = event["event"]
        if kind == "start":
            facts.update(steps=event.get("steps"), epochs=event.get("epochs"), data=event.get("data"))
        elif kind == "note":
            facts["notes"].append(str(event.get("message", "")))
        elif kind in ("step", "evaluation"):
            # A requeued job began anew: what its earlier start did comes before.
            if began is not None and event["time"] >= began:
                facts.setdefault("time_to_first_step_s", event["time"] - began)
            for name in (
                "step",
                "epoch",
                "images_per_s",
                "loss",
                "accuracy",
                "test_loss",
                "test_accuracy",
                "learning_rate",
            ):
                if event.get(name) is not None:
                    facts[name] = event[name]
            if kind == "evaluation":
                facts["history"].append(event)
            elif event.get("loss") is not None:
                facts["losses"].append((event.get("samples", 0), event["loss"]))
    return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}


def _remaining(facts: dict[str, Any], events: list[dict], now: float) -> float | None:
    start = max((i for i, event in enumerate(events) if event["event"] == "start"), default=0)
    steps = [event for event in events[start:] if event["event"] == "step"]
    done = facts["step"] - steps[0]["step"] if steps else 0
    if done < 1 or not facts.get("steps"):
        return None
    per_step = (steps[-1]["time"] - steps[0]["time"]) / done
    return max(0.0, (facts["steps"] - facts["step"]) * per_step - (now - steps[-1]["time"]))
