"""Facts from a run's folder about how its ranks ended, and which ranks the others wait for."""

import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ddl.job.tf_cluster_roles import role_of
from ddl.records.folder import RunFolder, ranks_of, stack_of
from ddl.records.jsonfiles import read_json
from ddl.records.log import last_lines

LATE_S = 1.0  # how much later than the other ranks the launcher may notice a killed rank
BY_LAUNCHER = (signal.SIGTERM, signal.SIGKILL)  # signals that the launcher sends to end ranks
ENDED = "was ended"
# Errors of ranks that lost another rank: Horovod's, then tf.distribute's.
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
    """How one rank ended, from its own record and the launcher's; `output` is its last lines."""

    rank: int
    time: float
    host: str
    started: float | None
    code: int
    error: dict = field(default_factory=dict)
    output: tuple[str, ...] = ()
    struck: bool = False  # killed by a signal that the launcher did not send

    @property
    def order(self) -> float:
        """The time to sort by, in seconds since the epoch.

        Other ranks notice a killed rank at once, by its closed connections; the launcher, only when the system has
        freed all its memory.
        """
        return self.time - LATE_S if self.struck else self.time

    @property
    def bad(self) -> bool:
        return bool(self.error or self.code)

    @property
    def signal(self) -> str:
        """The name of the signal that killed the rank; empty if none did."""
        return "" if self.error else _signal_of(self.code)

    @property
    def secondary(self) -> bool:
        """Whether the rank failed only because it lost another one."""
        if self.error:
            text = f"{self.error['type']} {self.error['message']}"
        else:
            text = " ".join(self.output) if self.signal == "SIGABRT" else ""
        return any(sign in text for sign in SECONDARY)

    @property
    def fate(self) -> str:
        if self.secondary:
            return "lost touch"
        if self.error and self.error["type"] != "SystemExit":
            return f"raised {self.error['type']}"
        if self.error:
            return f"ended with status {self.code}"
        return ENDED if self.code - 128 in BY_LAUNCHER else fate_of(self.code)


def _signal_of(status: int) -> str:
    number = status - 128
    if number <= 0:
        return ""
    return signal.Signals(number).name if number in list(signal.Signals) else f"signal {number}"


def fate_of(status: int) -> str:
    """Say what became of a rank with this exit status."""
    killer = _signal_of(status)
    return f"was killed by {killer}" if killer else f"ended with status {status}"


@dataclass(frozen=True)
class CrashReport:
    """All known facts about how a run ended."""

    folder: RunFolder
    job: dict
    launcher: list[dict]  # its events since it last started the ranks
    events: list[dict]  # the script's events
    state: str
    end: dict  # the event that ended the run; empty while it is active

    @property
    def world(self) -> int:
        return ranks_of(self.job) or len(self.exits)  # a pasted shell line has no job

    @property
    def logs(self) -> tuple[Path, ...]:
        """The paths of all existing logs."""
        logs = (*map(self.folder.log, range(self.world)), self.folder.launcher_log)
        return tuple(path for path in logs if path.exists())

    @cached_property
    def exits(self) -> dict[int, dict]:
        """The exits of ranks that ended on their own, by rank."""
        exits = [event for event in self.launcher if event["event"] == "rank_exit" and not event.get("reason")]
        return {event["rank"]: event for event in exits}

    @property
    def raised(self) -> Ending | None:
        """The first rank that failed with an exception that was not secondary."""
        return next((ending for ending in self.endings if ending.error and not ending.secondary), None)

    @cached_property
    def endings(self) -> list[Ending]:
        """The ranks that have ended, in that order."""
        endings = filter(None, map(self._ending, range(self.world)))
        return sorted(endings, key=lambda ending: ending.order)

    def _ending(self, rank: int) -> Ending | None:
        error = read_json(self.folder.error(rank)) or {}
        if not error and rank not in self.exits:
            return None
        exit = self.exits.get(rank, {"code": 0, "time": 0.0})
        code, time = exit["code"], exit["time"]
        struck = code == 128 + signal.SIGKILL and exit.get("asked", "SIGKILL") != "SIGKILL"
        info = read_json(self.folder.rank(rank)) or {}
        if error:
            code, time = error.get("status", 1), error["time"]
        elif "ended" in info and code - 128 in BY_LAUNCHER:
            code, time = 0, info["ended"]  # it was killed after its script had ended
        output: tuple[str, ...] = ()
        if not error or "log_bytes" in error:  # the lines before the traceback
            output = tuple(last_lines(self.folder.log(rank), before=error.get("log_bytes")))
        return Ending(rank, time, info.get("host", ""), info.get("started"), code, error, output, struck)

    def who(self, rank: int) -> str:
        """Return a rank's name with its task in a tf.distribute cluster: "rank 2 of 4 (worker 1)"."""
        role = role_of(self.job, rank)
        return f"rank {rank} of {self.world}{f' ({role})' if role else ''}"

    def when(self, ending: Ending) -> str:
        """Return when a rank ended: "1.0 s after it started"."""
        return f"{ending.time - ending.started:.1f} s after it started" if ending.started else "before it started"

    def others(self, first: Ending) -> str:
        """Return a sentence about how the ranks other than `first` ended."""
        known = {ending.rank: ending.fate for ending in self.endings if ending.time}
        fates = grouped({rank: known.get(rank, ENDED) for rank in range(self.world) if rank != first.rank})
        return "; ".join(
            f"{name_ranks(ranks)} {fate.replace('was ', 'were ') if len(ranks) > 1 else fate}"
            for fate, ranks in fates.items()
        )


def stall_of(folder: RunFolder, world: int) -> str:
    """Return a note on which ranks a stalled run waits for, and where they are; empty if it is not stalled."""
    records = [record for rank in range(world) if (record := read_json(folder.stalled(rank)))]
    waiting = [record["rank"] for record in records if record.get("waits")]
    late = [record["rank"] for record in records if not record.get("waits")]
    if not (waiting and late):
        return ""
    verb = "is" if len(waiting) == 1 else "are"
    since = time.strftime("%H:%M:%S", time.localtime(records[0].get("since")))
    note = f"no output since {since}: {name_ranks(waiting)} {verb} waiting for {name_ranks(late)}"
    return "\n".join(filter(None, [note, stacks_of(folder, late)]))


def straggler_of(folder: RunFolder, world: int) -> str:
    """Return a note on the rank that the others wait for most of the time; empty if there is none."""
    rank = (read_json(folder.straggler) or {}).get("rank", world)
    return f"the other ranks mostly wait for rank {rank}, which is slower or has more work" if rank < world else ""


def stacks_of(folder: RunFolder, ranks: Iterable[int]) -> str:
    """Return the last recorded stacks of these ranks."""
    stacks = {rank: stack_of(folder.stack(rank)) for rank in ranks}
    return "\n".join(
        f"rank {rank} was here (innermost call first):\n{stack}" for rank, stack in stacks.items() if stack
    )


def name_ranks(ranks: Iterable[int]) -> str:
    """Return a list of ranks in words: "rank 1", "ranks 0, 2 and 3"."""
    *most, last = map(str, ranks)
    return f"ranks {', '.join(most)} and {last}" if most else f"rank {last}"


def grouped(texts: Mapping[int, str]) -> dict[str, list[int]]:
    """Return each different text with the ranks that have it."""
    groups: dict[str, list[int]] = {}
    for rank, text in texts.items():
        groups.setdefault(text, []).append(rank)
    return groups
