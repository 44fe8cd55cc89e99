"""Progress of a run, computed only from the files in its folder."""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddl import plugins
from ddl.follow.crash_report import CrashReport, stall_of, straggler_of
from ddl.follow.failure import Failure, failure_of
from ddl.follow.restarts import (
    EVENT,
    OF_LAUNCHER,
    STEPS,
    Restart,
    changes_of,
    last_start,
    notes_of,
    present_ranks_of,
    restarts_of,
    step_of,
)
from ddl.job.tf_cluster_roles import role_of
from ddl.records.folder import RunFolder, ranks_of, read_job, start_of
from ddl.records.jsonfiles import NUMBER, DamagedFile, JsonLines, Schema, is_full, is_number, read_json, read_json_lines
from ddl.text import plural, printable

GONE_S = 5.0  # normally, all ranks end within a second or two
ENDS = ("done", "failed", "stopped", "lost")  # states that are recorded
OVER = (*ENDS, "damaged")
STATES = ("queued", "starting", "running", "training", *OVER)
RANK: Schema = {"rank": int, "host": str, "pid": int, "started": NUMBER, "note?": str}
EXIT: Schema = {"rank": int, "code": int, "time": NUMBER, "reason?": str}
# Fields of `Progress` that are copied from step and evaluation events.
MEASURES = ("step", "epoch", "images_per_s", "loss", "test_accuracy", "learning_rate")
OF_RESULTS = ("images_per_s", "loss", "test_accuracy")  # and from the result of a run that is done
OF_VIEWS = (*MEASURES, "samples")  # left out of an evaluation if they are not numbers
# Fields that views show in a fixed place. Any other number is one of the script's own figures.
PLACES = {"event", "time", "seconds", "steps", "epochs", "samples", *MEASURES, "accuracy", "test_loss"}


@dataclass(frozen=True)
class RankInfo:
    """A rank that has started; `role` is its task in a tf.distribute cluster."""

    rank: int
    host: str
    pid: int
    started: float
    role: str = ""


@dataclass(frozen=True)
class Progress:
    """A snapshot of a run, with everything that views show.

    Times are in seconds; `step` and `steps` count from the start of training. `history` holds the evaluation events,
    `losses` pairs of (samples, loss), or of (step, loss) if the script records no samples: `over_steps`. `curves` are
    the script's own figures: {name: ((step, value), …)}. `waiting` is the scheduler's reason why the run is queued.
    """

    id: str
    name: str
    state: str
    folder: Path
    shell_line: str = ""
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
    test_accuracy: float | None = None
    learning_rate: float | None = None
    data: dict | None = None
    history: tuple[dict, ...] = ()
    losses: tuple[tuple[int, float], ...] = ()
    over_steps: bool = False
    announced: bool = False  # by a ``start`` event: views show its numbers instead of its output
    curves: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    max_restarts: int = 0
    restarts: tuple[Restart, ...] = ()
    failure: Failure | None = field(default=None, repr=False)

    @property
    def own(self) -> dict[str, float]:
        """The last value of each of the script's own figures."""
        return {name: points[-1][1] for name, points in self.curves.items()}

    @property
    def over(self) -> bool:
        """Whether the run has ended, for any reason."""
        return self.state in OVER


def progress_of(
    folder: str | Path,
    *,
    alive: bool = True,
    now: float | None = None,
    waiting: str = "",
    events: JsonLines | None = None,
) -> Progress:
    """Return the progress of the run in a folder.

    `alive` tells whether its processes run. If not, and no end was recorded, the run is "lost". A damaged file makes
    the run "damaged", with a failure that names the file. `waiting` is the reason why the run is queued, and `events` a
    reader of the script's events to be used again.
    """
    paths = RunFolder(Path(folder))
    now = time.time() if now is None else now
    try:
        return _read(paths, alive, now, waiting, events or JsonLines(paths.events, EVENT))
    except DamagedFile as error:
        name, problem, advice = paths.path.name, str(error), "Typical causes are a full disk and an interrupted copy."
        if not os.path.lexists(paths.path):
            problem, advice = f"the run's folder {paths.path} was deleted", ""
        failure = Failure(problem, type="damaged", advice=advice)
        return Progress(name, name, "damaged", paths.path, notes=(problem,), failure=failure)


def _read(folder: RunFolder, alive: bool, now: float, waiting: str, script: JsonLines) -> Progress:
    job = read_job(folder)
    if job is None:
        raise DamagedFile(f"{folder.job} is missing")
    created, size = job["created"], ranks_of(job)
    launcher = launcher_events(folder, size, alive)
    world = present_ranks_of(launcher) or size  # ranks of an elastic run keep their numbers when others are lost
    recorded_events = script.look()
    restarts, events = restarts_of(launcher, recorded_events), without_repeats(recorded_events)
    records = [] if waiting else [read_json(folder.rank(rank), RANK) for rank in range(size)]
    ranks = tuple(
        RankInfo(info["rank"], info["host"], info["pid"], info["started"], role_of(job, info["rank"]))
        for info in filter(None, records)
    )
    recorded = end = end_of(launcher) or {}
    if end.get("state") == "done" and folder.requeue.exists():
        end = {**end, "state": "stopped"}  # it stopped early with a checkpoint to resume from
    if alive and job.get("detached"):
        end = {}  # the batch job was requeued
    state = "queued" if waiting else end.get("state") or _state(launcher, events, len(ranks), world, alive)
    until = now
    if end:
        until = end["time"]
    elif state == "lost":
        until = max([created, *(event["time"] for event in (*launcher, *events))])
    facts = _training(events, start_of(folder))
    facts["notes"] += dict.fromkeys(info["note"] for info in records if info and info.get("note"))
    facts["notes"] += notes_of(restarts)
    facts["notes"] += changes_of(launcher)
    facts["notes"] += (event.get("message", "") for event in launcher if event["event"] == "note")
    if state not in OVER and folder.discovery.exists():
        facts["notes"].append(f"to let ranks come and go, edit {folder.discovery}")
    if state in ("running", "training"):
        facts["notes"] += _waits(folder, launcher, size, now)
    if damaged := script.damaged + (script.unfinished and not alive):
        facts["notes"].append(f"{plural(damaged, 'line')} of {script.path} cannot be read; the rest is shown")
    if alive and is_full(folder.path):
        facts["notes"].append(f"the disk that holds {folder.path} is full: the ranks' output may be lost")
    facts |= {name: tuple(facts[name]) for name in ("history", "losses", "notes")}
    if state == "done":  # the whole run's values, as tables have them, and not the last event's
        result = read_json(folder.result) or {}
        facts |= {name: result[name] for name in OF_RESULTS if is_number(result.get(name))}
    return Progress(
        id=folder.path.name,
        name=printable(job.get("name") or ""),
        state=state,
        folder=folder.path,
        shell_line=job.get("shell_line", ""),
        waiting=waiting,
        world=world,
        ranks=ranks,
        elapsed_s=max(0.0, until - created),  # the clock may have been set back
        remaining_s=_remaining(facts, events, now) if state == "training" else None,
        max_restarts=job.get("max_restarts") or 0,
        restarts=restarts,
        failure=failure_of(CrashReport(folder, job, last_start(launcher), events, state, recorded)),
        **facts,
    )


def _waits(folder: RunFolder, launcher: list[dict], world: int, now: float) -> Iterator[str]:
    """Yield notes on ranks that the others wait for, or may wait for because they ended a while ago."""
    for event in last_start(launcher):
        alone = event["event"] == "rank_exit" and not event["code"] and not event.get("reason")
        if alone and event["time"] < now - GONE_S:
            yield f"rank {event['rank']} has ended with status 0, and others are still running"
    yield from filter(None, (stall_of(folder, world), straggler_of(folder, world)))


def launcher_events(folder: RunFolder, world: int, alive: bool) -> list[dict]:
    """Return the events of the launcher and, on several nodes, of the ranks' tasks, which may still run if `alive`."""
    events = read_json_lines(folder.launcher, OF_LAUNCHER)
    exits = [record for rank in range(world) if (record := read_json(folder.exit(rank), EXIT))]
    if exits:
        events += [{"event": "rank_exit", **record} for record in exits]
        events.sort(key=lambda event: event["time"])
        # After a failure, the other tasks may be killed before they can write.
        complete = len(exits) == world or (not alive and any(record["code"] for record in exits))
        if complete and not end_of(events):
            events.append({"event": "ended", "time": events[-1]["time"], **_end_by_tasks(exits)})
    return events


def _end_by_tasks(exits: list[dict]) -> dict:
    """Return how a run ended, from the records of its ranks' tasks."""
    reasons = {record.get("reason"): record for record in exits}
    if "timeout" in reasons:
        missing = [record["rank"] for record in exits if not record.get("waits")]
        return {"state": "failed", "reason": "timeout", "missing": missing if len(missing) < len(exits) else []}
    for reason, state in (("launcher gone", "stopped"), ("launch", "failed")):
        if record := reasons.get(reason):
            return {"state": state, "reason": reason, "message": record.get("message", "")}
    failed = [record for record in exits if record["code"]]
    if any(not record.get("reason") for record in failed):
        why_not = next((record["no_restart"] for record in failed if record.get("no_restart")), None)
        return {"state": "failed", **({"no_restart": why_not} if why_not else {})}
    return {"state": "stopped", "reason": "SIGTERM"} if failed else {"state": "done"}


def end_of(launcher: Iterable[dict]) -> dict | None:
    """Return the event that ended the run's last start; None while it goes on."""
    ends = [event for event in last_start(launcher) if event["event"] == "ended" and event.get("state") in ENDS]
    return ends[-1] if ends else None


def without_repeats(events: Iterable[dict]) -> list[dict]:
    """Drop the steps that a resumed training repeats: a ``start`` event has the step at which it resumes."""
    kept: list[dict] = []
    for event in events:
        if event["event"] == "start":
            done = step_of(event)
            kept = [e for e in kept if e["event"] == "start" or step_of(e) <= done]
        kept.append(event)
    return kept


def _state(launcher: list[dict], events: list[dict], ranks: int, world: int, alive: bool) -> str:
    """Return the state of a run whose end is not recorded; `ranks` of its `world` ranks have started."""
    if not alive:
        return "lost"
    if not launcher and not ranks:
        return "queued"
    if any(event["event"] in STEPS for event in events):
        return "training"
    return "running" if ranks == world else "starting"


def _training(events: list[dict], began: float | None) -> dict[str, Any]:
    """Fold the training script's events into the fields of `Progress`."""
    facts: dict[str, Any] = {"history": [], "losses": [], "notes": [], "curves": {}}
    training = [event for event in events if event["event"] in STEPS]
    hidden = PLACES | {name for names in plugins.each("hidden_figures") for name in names()}
    facts["over_steps"] = not any(is_number(event.get("samples")) for event in training)
    for event in events:
        kind = event["event"]
        if kind == "start":
            facts |= {name: event.get(name) if is_number(event.get(name)) else None for name in ("steps", "epochs")}
            facts["announced"] = True
            facts["data"] = event["data"] if isinstance(event.get("data"), dict) else None
        elif kind == "note":
            facts["notes"].append(str(event.get("message", "")))
        elif kind in STEPS:
            # A requeued job has events from before `began`.
            if began is not None and event["time"] >= began:
                facts.setdefault("time_to_first_step_s", event["time"] - began)
            facts |= {name: event[name] for name in (*MEASURES, "steps", "epochs") if is_number(event.get(name))}
            for name, value in event.items():
                if name not in hidden and is_number(value) and is_number(event.get("step")):
                    facts["curves"].setdefault(name, []).append((event["step"], value))
            if kind == "evaluation":
                facts["history"].append(
                    {name: value for name, value in event.items() if name not in OF_VIEWS or is_number(value)}
                )
            elif is_number(event.get("loss")):
                place = event.get("step" if facts["over_steps"] else "samples")
                facts["losses"].append((place if is_number(place) else 0, event["loss"]))
    facts["curves"] = {name: tuple(points) for name, points in facts["curves"].items()}
    return facts


def _remaining(facts: dict[str, Any], events: list[dict], now: float) -> float | None:
    start = max((i for i, event in enumerate(events) if event["event"] == "start"), default=0)
    steps = [event for event in events[start:] if event["event"] == "step" and is_number(event.get("step"))]
    done = facts["step"] - steps[0]["step"] if steps else 0
    if done < 1 or not facts.get("steps"):
        return None
    per_step = (steps[-1]["time"] - steps[0]["time"]) / done
    return max(0.0, (facts["steps"] - facts["step"]) * per_step - (now - steps[-1]["time"]))
