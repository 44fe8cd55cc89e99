"""Restarts of a run: whether it is restarted, and what each restart cost.

The supervisor records each in ``launcher.jsonl``: ``{"event": "restarted", "reason": a sentence, "cause": [rank, type,
message], "step": the last step before it}``. In an elastic run, ``{"event": "ranks", "ranks": n}`` gives the number of
ranks there are after a change, and ``{"event": "discovery", "problem": text}`` what is wrong with the discovery
script's output.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ddl.follow.crash_report import CrashReport, fate_of
from ddl.follow.failure import failure_of
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import NUMBER, Schema, is_number, read_json, read_json_lines
from ddl.text import plural

STARTS = ("launched", "restarted", "ranks")
STEPS = ("step", "evaluation")
EVENT: Schema = {"event": str, "time": NUMBER}  # a script may record anything else
OF_LAUNCHER: Schema = {
    **EVENT,
    **dict.fromkeys(("rank?", "code?", "pid?", "ranks?"), int),
    **dict.fromkeys(("state?", "reason?", "message?", "signal?", "job?", "slurm?", "why?", "problem?"), str),
    "step?": NUMBER,
    "timeout_s?": NUMBER,
}


@dataclass(frozen=True)
class Restart:
    """One restart.

    `step` is the last step that was recorded before it, `resumed_at` the step that training resumed from, and `lost_s`
    the seconds from `step` to the first record that is as far again. Each is None if it is not known.
    """

    time: float  # in seconds since the epoch
    reason: str
    step: int | None
    resumed_at: int | None = None
    lost_s: float | None = None

    @property
    def repeated(self) -> int | None:
        """Number of steps that were done twice."""
        if self.step is None or self.resumed_at is None:
            return None
        return max(0, self.step - self.resumed_at)


def last_start(launcher: Iterable[dict]) -> list[dict]:
    """Return the launcher's events since the last start of the ranks."""
    kept: list[dict] = []
    for event in launcher:
        if event["event"] in STARTS:
            kept = []
        kept.append(event)
    return kept


def present_ranks_of(launcher: Iterable[dict]) -> int | None:
    """Return the present number of ranks of an elastic run; None if it has not changed."""
    return next((event.get("ranks") for event in last_start(launcher)), None)


def restarts_of(launcher: Iterable[dict], script: list[dict]) -> tuple[Restart, ...]:
    """Return the restarts of a run, from its launcher's events and all of its script's events."""
    events = [event for event in launcher if event["event"] == "restarted"]
    ends = [event["time"] for event in events[1:]] + [math.inf]
    return tuple(_restart(event, end, script) for event, end in zip(events, ends))


def _restart(event: dict, end: float, script: list[dict]) -> Restart:
    step, began = event.get("step"), event["time"]
    after = [each for each in script if began <= each["time"] < end and each["event"] in ("start", *STEPS)]
    resumed_at = next((step_of(each) for each in after if each["event"] == "start"), None)
    lost_s = None
    if step is not None:
        reached = [each["time"] for each in script if each["time"] < began and each.get("step") == step]
        again = [each["time"] for each in after if step_of(each) >= step]
        lost_s = again[0] - reached[-1] if reached and again else None
    return Restart(began, event.get("reason", ""), step, resumed_at, lost_s)


def step_of(event: dict) -> Any:
    """Return the step of an event that a script has recorded; 0 if it is not a number."""
    return event["step"] if is_number(event.get("step")) else 0


def notes_of(restarts: Iterable[Restart]) -> Iterator[str]:
    """Say why the run was restarted each time and, once known, what that cost."""
    for number, restart in enumerate(restarts, start=1):
        yield f"restart {number}: {restart.reason}"
        if restart.repeated is not None and restart.lost_s is not None:
            yield (
                f"restart {number} resumed at step {restart.resumed_at:,}: {plural(restart.repeated, 'step')} "
                f"repeated, {restart.lost_s:.1f} s lost"
            )


def changes_of(launcher: Iterable[dict]) -> Iterator[str]:
    """Say how an elastic run grew and shrank, and what is wrong with its discovery script now."""
    launcher = list(launcher)
    began = next((event["time"] for event in launcher if event["event"] == "launched"), 0.0)
    before, why = None, ""
    for event in launcher:
        if event["event"] == "rank_exit" and event["code"] and not event.get("asked"):
            what = f"raised {event['why']}" if event.get("why") else fate_of(event["code"])
            why = why or f", because rank {event['rank']} {what}"
        if event["event"] != "ranks":
            continue
        if before:
            verb = "grew" if event["ranks"] > before else "shrank" if event["ranks"] < before else "changed"
            change = f"it {verb} from {before} to {plural(event['ranks'], 'rank')}"
            yield f"after {event['time'] - began:.1f} s {change}{why}"
        before, why = event["ranks"], ""
    looks = [event for event in launcher if event["event"] == "discovery"]
    if looks and looks[-1].get("problem"):
        yield looks[-1]["problem"]


def decide(folder: RunFolder, max_restarts: int, exits: Iterable[dict] = ()) -> dict:
    """Decide whether a run with a failed rank is restarted.

    `exits` are events about ranks' ends that ``launcher.jsonl`` does not have. Returns the fields of the ``restarted``
    event, or ``{"no_restart": why not}``, which is empty if no restart was asked for.
    """
    if not max_restarts:
        return {"no_restart": ""}
    launcher = read_json_lines(folder.launcher, OF_LAUNCHER)
    began = max((event["time"] for event in launcher if event["event"] in STARTS), default=0.0)
    earlier = [event for event in launcher if event["event"] == "restarted"]
    events = read_json_lines(folder.events, EVENT)
    since = [event for event in events if event["time"] >= began]
    known = [*last_start(launcher), *exits]
    failure = failure_of(CrashReport(folder, read_json(folder.job) or {}, known, since, "failed", {"state": "failed"}))
    assert failure, "a run without a failure needs no restart"
    steps = [event["step"] for event in since if event["event"] in STEPS and is_number(event.get("step"))]
    step = max(steps, default=None)
    cause = [failure.rank, failure.type, failure.message]
    if earlier and earlier[-1].get("cause") == cause and _same(earlier[-1].get("step"), step, steps):
        where = "before its first step" if step is None else f"at step {step:,}"
        return {"no_restart": f"it failed {where} twice for this reason, so it was not restarted again"}
    if len(earlier) >= max_restarts:
        return {"no_restart": f"it was restarted {plural(len(earlier), 'time')}, which is the limit (max_restarts)"}
    return {"reason": failure.sentence, "cause": cause, "step": step}


def _same(before: int | None, now: int | None, steps: list[int]) -> bool:
    """Return whether two starts got equally far, within the distance between recorded steps."""
    if before is None or now is None:
        return before is now
    return abs(now - before) <= max((b - a for a, b in pairwise(steps)), default=0)
