"""What is known of how the ranks of a run ended, or wait: from its folder."""

import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ddl.errors import InputError
from ddl.launcher.roles import role_of
from ddl.records.folder import RunFolder, processes_of, stack_of
from ddl.records.jsonfiles import read_json
from ddl.records.log import last_lines

LATE_S = 1.0
ERROR = {"rank": int, "host": str, "type": str, "message": str, "traceback": str, "time": (int, float)}
STALLED = {"rank": int, "quiet_s": (int, float)}
ENDED = "was ended"
# Errors of ranks that only noticed the loss of another rank: Horovod's, then tf.distribute's.
SECONDARY = (
    "HorovodInternalError",
    "Horovod has been shut down",
    "Connection reset by peer",
    "Connection closed by peer",
    "UnavailableError",
    "Collective ops is aborted by",
    "The error could be from a previous operation",
)


@dataclass(frozen=True)
class Ending:
    """How one rank ended, from its own record, its launcher's, or both."""

    rank: int
    time: float
    host: str
    started: float | None
    code: int | None = None
    error: dict = field(default_factory=dict)
    words: tuple[str, ...] = ()  # the last lines that it printed
    struck: bool = False  # killed by a signal that was not its launcher's

    @property
    def order(self) -> float:
        """When it happened, in seconds since the epoch, to sort by.

        Others notice a killed rank's closed connections at once; its launcher does when all its memory is gone.
        """
        return self.time - LATE_S if self.struck else self.time

    @property
    def bad(self) -> bool:
        """Whether the rank failed, as far as is known."""
        return bool(self.error or self.code)

    @property
    def signal(self) -> str:
        """Name of the signal that killed it; empty where none did."""
        number = (self.code or 0) - 128
        if self.error or number <= 0:
            return ""
        known = number in list(signal.Signals)
        return signal.Signals(number).name if known else f"signal {number}"

    @property
    def secondary(self) -> bool:
        """Whether it only noticed that another rank was gone."""
        if self.error:
            return _is_secondary(self.error)
        return self.signal == "SIGABRT" and any(sign in " ".join(self.words) for sign in SECONDARY)


@dataclass(frozen=True)
class Evidence:
    """Everything known about how a run ended."""

    folder: RunFolder
    job: dict
    launcher: list[dict]  # the launcher's events
    events: list[dict]  # the script's events
    state: str
    end: dict  # the event that ended the run; empty while it is active

    @property
    def world(self) -> int:
        return processes_of(self.job)

    @cached_property
    def logs(self) -> tuple[Path, ...]:
        """Paths of all existing logs."""
        logs = tuple(path for rank in range(self.world) if (path := self.folder.log(rank)).exists())
        return logs + (self.folder.launcher_log,) * self.folder.launcher_log.exists()

    @cached_property
    def exits(self) -> dict[int, dict]:
        """How ranks that ended by themselves did, by rank."""
        return {
            event["rank"]: event for event in self.launcher if event["event"] == "rank_exit" and not event.get("reason")
        }

    @property
    def raised(self) -> Ending | None:
        """The first rank that raised an error of its own."""
        return next((ending for ending in self.endings if ending.error and not ending.secondary), None)

    @cached_property
    def endings(self) -> list[Ending]:
        """The ranks that have ended, in order."""
        found = []
        for rank in range(self.world):
            error = read_json(self.folder.error(rank), ERROR) or {}
            if not error and rank not in self.exits:
                continue
            known = self.exits.get(rank, {"code": 0, "time": 0.0})
            code, time = known["code"], known["time"]
            info = read_json(self.folder.rank(rank)) or {}
            if error:
                code, time = error.get("status", 1), error["time"]
            elif "ended" in info and code - 128 in (signal.SIGTERM, signal.SIGKILL):
                code, time = 0, info["ended"]  # its script had ended before it was killed
            words = self._words(rank, error)
            struck = code == 128 + signal.SIGKILL and known.get("asked", "SIGKILL") != "SIGKILL"
            found.append(Ending(rank, time, info.get("host", ""), info.get("started"), code, error, words, struck))
        return sorted(found, key=lambda ending: ending.order)

    def _words(self, rank: int, error: dict) -> tuple[str, ...]:
        """The last lines that a rank printed, before the traceback that its error holds."""
        if error and "log_bytes" not in error:
            return ()
        before = error["log_bytes"] if error else None
        return tuple(last_lines(self.folder.log(rank), before=before))

    def who(self, rank: int) -> str:
        """Name a rank, and its task in a cluster of tf.distribute: "rank 2 of 4 (worker 1)"."""
        role = role_of(self.job, rank)
        return f"rank {rank} of {self.world}{f' ({role})' * bool(role)}"

    def when(self, ending: Ending) -> str:
        """Say when a rank ended: "3.2 s into epoch 2", or since the rank's start."""
        at, started = ending.time, ending.started
        began = next((event["time"] for event in self.events if event["event"] in ("start", "step")), None)
        if began is None or at < began:
            return f"{at - started:.1f} s after it started" if started else "before it started"
        past = [event for event in self.events if event["event"] == "evaluation" and event["time"] <= at]
        epoch = int(past[-1].get("epoch") or 0) + 1 if past else 1
        return f"{at - (past[-1]['time'] if past else began):.1f} s into epoch {epoch}"

    def others(self, first: Ending) -> str:
        """Say what became of the ranks other than `first`, grouped by fate."""
        if self.world == 1:
            return ""
        became = {ending.rank: _became(ending) for ending in self.endings if ending.time}
        fates: dict[str, list[int]] = {}
        for rank in range(self.world):
            if rank != first.rank:
                fates.setdefault(became.get(rank) or ENDED, []).append(rank)
        if list(fates) == [ENDED]:
            return "the other ranks were ended"
        return "; ".join(f"{name_ranks(ranks)} {_were(fate, ranks)}" for fate, ranks in fates.items())

    def stacks(self, ranks: Iterable[int]) -> str:
        """The stacks of those ranks that left one."""
        return "\n".join(_stacks(self.folder, ranks))


def stall_s() -> float:
    """After how many seconds without anything new ranks are asked for whom they wait: ``DDL_STALL_S``, else 60."""
    text = os.environ.get("DDL_STALL_S") or "60"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InputError(f"DDL_STALL_S={text!r}: a number of seconds above 0 is needed, for example 60")
    return seconds


def stall_of(folder: RunFolder, world: int) -> str:
    """Say for whom the ranks of a run that goes on have been waiting, and where that one is; empty if they have not."""
    records = [record for rank in range(world) if (record := read_json(folder.stalled(rank), STALLED))]
    waiting = [record["rank"] for record in records if record.get("waits")]
    late = [record["rank"] for record in records if not record.get("waits")]
    if not (waiting and late):
        return ""
    verb = "is" if len(waiting) == 1 else "are"
    return "\n".join(
        [
            f"nothing new for {records[0]['quiet_s']:g} s: {name_ranks(waiting)} {verb} waiting for {name_ranks(late)}",
            *_stacks(folder, late),
        ]
    )


def _stacks(folder: RunFolder, ranks: Iterable[int]) -> Iterator[str]:
    for rank in ranks:
        if stack := stack_of(folder.stack(rank)):
            yield f"rank {rank} was here (innermost call first):\n{stack}"


def _became(ending: Ending) -> str:
    if ending.secondary:
        return "lost touch"
    if ending.error and ending.error["type"] != "SystemExit":
        return f"raised {ending.error['type']}"
    if ending.error or not ending.signal:
        return f"ended with status {ending.code}"
    # The launcher ends ranks by these two signals.
    return ENDED if ending.signal in ("SIGTERM", "SIGKILL") else f"was killed by {ending.signal}"


def _were(fate: str, ranks: list[int]) -> str:
    return fate.replace("was ", "were ") if len(ranks) > 1 else fate


def name_ranks(ranks: Iterable[int]) -> str:
    """Name ranks: "rank 1", "ranks 0, 2 and 3"."""
    *most, last = map(str, ranks)
    return f"ranks {', '.join(most)} and {last}" if most else f"rank {last}"


def _is_secondary(error: dict) -> bool:
    return any(sign in error["type"] or sign in error["message"] for sign in SECONDARY)
