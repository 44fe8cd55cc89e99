"""How the tasks of a run on several nodes agree to start their ranks again, through files in the run's folder.

Each task whose rank has ended writes ``ready-<k>.json``. When all have, or those of a lost node are not to be expected
any more, the first of them decides (`ddl.launcher.restarts.decide`) and writes who goes on to ``agreed.json``.
"""

import os
import time

from ddl.launcher.commands import GLOO_TIMEOUT_S, TaskCommand
from ddl.launcher.restarts import decide
from ddl.rank.cluster import wait_for
from ddl.rank.slot import Slot
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json

JOIN_S = 20.0  # after the last task that came, no other one is expected: its node is lost


def attempt() -> str:
    """Name this start of this run: a requeued job of Slurm starts again in the same folder."""
    return "-".join(os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"))


class Starts:
    """The starts of one task's rank; `slot` is the one that it has in the present start, None if it has none."""

    def __init__(self, folder: RunFolder, slot: Slot):
        self._folder, self._task, self._number = folder, slot.rank, 1
        self.slot: Slot | None = slot
        self._members = list(range(slot.size))  # tasks, in the order of their ranks
        self._node = slot.cross_rank

    @property
    def name(self) -> str:
        """Of the present start, the same in all tasks."""
        return attempt() if self.is_first else f"{attempt()}-{self._number}"

    @property
    def is_first(self) -> bool:
        return self._number == 1

    def ready(self) -> dict[int, dict]:
        """The tasks whose ranks have ended and that wait for the next start, with their records."""
        os.listdir(self._folder.path)  # NFS remembers that a file was not there: look again
        found = {task: read_json(self._folder.ready(task)) or {} for task in self._members}
        return {task: record for task, record in found.items() if record.get("after") == self.name}

    def agree(self, options: TaskCommand, code: int, asked: str) -> str:
        """Agree with the other tasks on the next start, after this one's rank has ended with a status.

        Afterwards `slot` is this task's in it, or None. Returns why there is none, empty where there is.
        """
        rank = self._members.index(self._task)
        record = {"after": self.name, "rank": rank, "code": code, "asked": asked, "node": self._node}
        self._folder.write_json(self._folder.ready(self._task), {**record, "time": time.time()})
        known = self._await_the_others()
        if self._task == min(known):
            self._decide(options, known)
        wait_for([0], lambda _: self._agreed(), GLOO_TIMEOUT_S)
        agreed = self._agreed() or {"no_restart": "the tasks could not agree on another start", "members": {}}
        members = {int(task): node for task, node in agreed["members"].items()}
        self._number, self._members = self._number + 1, list(members)
        self.slot = _slot(self._task, members) if self._task in members else None
        return agreed.get("no_restart", "")

    def _await_the_others(self):
        known, deadline = self.ready(), time.monotonic() + JOIN_S
        while len(known) < len(self._members) and time.monotonic() < deadline and not self._agreed():
            time.sleep(0.2)
            if len(now := self.ready()) > len(known):
                known, deadline = now, time.monotonic() + JOIN_S
        return known

    def _agreed(self):
        record = read_json(self._folder.agreed)
        return record if record and record.get("after") == self.name else None

    def _decide(self, options, known):
        if self._agreed():
            return  # others did not expect this task any more
        places = _whole_nodes({task: record["node"] for task, record in known.items()})
        exits = [{**record, "event": "rank_exit"} for record in known.values()]
        again = decide(self._folder, options, exits, len(self._members), len(places))
        if again.get("ranks", 0) < len(places) and "cause" in again:  # without the node whose rank can't start
            failed = self._members[again["cause"][0] or 0]
            places = {task: node for task, node in places.items() if node != places.get(failed)}
            if len(places) < options.min_workers:
                again = {"no_restart": f"there is room for {len(places)} ranks only, and min_workers says so"}
        agreed = {"after": self.name, "members": places if "ranks" in again else {}}
        if "ranks" in again:
            self._folder.forget_start(len(self._members))
            event = {"event": "restarted", "time": time.time(), **again, "ranks": len(places)}
            self._folder.append(self._folder.launcher, event)
        else:
            agreed["no_restart"] = again["no_restart"]
        self._folder.write_json(self._folder.agreed, agreed)


def _whole_nodes(nodes: dict[int, int]) -> dict[int, int]:
    """Of these tasks and their nodes, those on nodes that have as many as any."""
    counts = {node: list(nodes.values()).count(node) for node in nodes.values()}
    return {task: node for task, node in sorted(nodes.items()) if counts[node] == max(counts.values())}


def _slot(task: int, members: dict[int, int]) -> Slot:
    """A task's slot among these tasks and their nodes."""
    nodes, tasks = list(dict.fromkeys(members.values())), list(members)
    on_node = [each for each in tasks if members[each] == members[task]]
    return Slot(tasks.index(task), len(tasks), on_node.index(task), nodes.index(members[task]), len(nodes))
