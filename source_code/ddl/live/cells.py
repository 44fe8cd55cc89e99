"""Cells on live ranks: send them, show what ranks print, and end what cannot end by itself.

The ranks are a run of `launch`, so records, views, reports on failures and `ddl stop` work for them. Requests and
answers are lines of files in the run's folder, which every kind of site shares with its ranks.
"""

import math
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape
from typing import Any, NoReturn

from ddl.display import style
from ddl.errors import CourseError
from ddl.follow import processes
from ddl.follow.crash_report import SECONDARY, grouped, name_ranks, stacks_of
from ddl.follow.processes import wait_until
from ddl.follow.run import RunInterrupted
from ddl.live.loop import POLL_S
from ddl.records import files
from ddl.records.folder import RunFolder, StorageError
from ddl.records.jsonfiles import JsonLines, read_json, read_json_lines
from ddl.records.log import section
from ddl.start.core_queue import QUEUE
from ddl.start.launch import launch
from ddl.text import printable

SHOW_S = 0.5
INTERRUPTS, INTERRUPT_S = 4, 0.5  # for ranks to leave a cell on their own
LEAVE_S, REJOIN_S = 5.0, 30.0  # once their collectives have failed, and to connect again
LOG_S = 5.0  # for a network's file system to show what another host has written


class CellFailed(CourseError, RuntimeError):
    """A cell failed on some ranks; `report` says on which, and where in the cell."""

    def __init__(self, sentence: str, report: str = "") -> None:
        super().__init__(printable(sentence))
        self.report = printable(report)

    def _render_traceback_(self) -> list[str]:
        return [*self.report.splitlines(), f"{type(self).__name__}: {self}"]


class LiveRanks:
    """A run whose ranks wait for cells; `over` when its end has been reported."""

    def __init__(self, **options: Any) -> None:
        # Most of the time the ranks are idle: they take no turn.
        run = launch("-m ddl.live.loop", name="ranks", env={QUEUE: ""}, wait=False, **options)
        assert run
        run.folder.chmod(run.folder.stat().st_mode & ~0o022)  # nobody else may write cells
        self.run, self.options, self.over = run, options, False
        self._folder, ranks = RunFolder(run.folder), range(run.job["ranks"])
        self._readers = {rank: JsonLines(self._folder.answers(rank)) for rank in ranks}
        self._sent, self._log_bytes = 0, dict.fromkeys(ranks, 0)

    def execute(self, source: str, quiet: bool = False) -> None:
        """Run a cell on all ranks and show what each prints; CellFailed if it fails on some."""
        self._ask("cell", Outputs(self._folder, self._log_bytes).show, source=source, quiet=quiet)

    def push(self, values: dict[str, object]) -> None:
        """Set variables on all ranks."""
        with self._values():
            self._folder.write_text(self._folder.values(self._sent + 1), pickle.dumps(values))
            self._ask("push")

    def pull(self, name: str) -> list:
        """Return a variable's value on each rank."""
        with self._values():
            self._ask("pull", name=name)
            paths = [self._folder.values(f"{self._sent}-{rank}") for rank in self._readers]
            return [pickle.loads(files.read(path)) for path in paths]

    @contextmanager
    def _values(self) -> Iterator[None]:
        """Remove the files of values that move in the block."""
        try:
            yield
        finally:
            for path in self.run.folder.glob(self._folder.values("*").name):
                path.unlink()

    def stop(self) -> None:
        """Tell the ranks to end, and wait until they are gone."""
        with suppress(StorageError):  # such as a folder that was deleted
            self._send("stop")
        wait_until(lambda: self.run.progress().over, LEAVE_S)
        self._end()  # a thread that a cell has started may go on

    def _end(self) -> None:
        self.over = True
        self.run.stop()
        wait_until(lambda: not processes.of_run(self.run.id), LEAVE_S)
        processes.end(self.run.id)

    # ---------------------------------------------------------------- requests and answers

    def _send(self, kind: str, **content: Any) -> int:
        """Send a request to all ranks, at once and whole; return its number."""
        self._sent += 1
        self._folder.append(self._folder.requests, {"number": self._sent, "kind": kind, **content})
        return self._sent

    def _answers(self, number: int) -> dict[int, dict]:
        """Return the answers to a request that are there, by rank."""
        with suppress(OSError):
            os.listdir(self.run.folder)  # makes NFS forget that a file was missing
        lines = ((rank, line) for rank, reader in self._readers.items() for line in reader.look())
        return {rank: line for rank, line in lines if line["number"] == number}

    def _await(self, number: int, timeout_s: float = math.inf) -> Iterator[dict[int, dict]]:
        """Yield the answers to a request again and again, until all are there or the time is over."""
        began = time.monotonic()
        while (waited := time.monotonic() - began) < timeout_s:
            yield (answers := self._answers(number))
            if len(answers) == len(self._readers):
                return
            if waited > 1 and self.run.progress().over:
                self._explain_end()
            time.sleep(min(POLL_S, 0.001 + waited / 20))

    def _answered(self, number: int, timeout_s: float) -> bool:
        """Return whether all ranks answer a request in time."""
        return any(len(answers) == len(self._readers) for answers in self._await(number, timeout_s))

    def _ask(self, kind: str, show: Callable = lambda *_: None, **content: Any) -> dict[int, dict]:
        """Send a request, wait for all answers, and return them by rank; CellFailed if it fails on some ranks.

        If ranks wait in vain for others, or on an interrupt, all leave the cell.
        """
        began, report, number = time.time(), "", self._sent + 1
        try:
            self._send(kind, **content)
            for answers in self._await(number):
                show(answers)
                if waiting := self._waiting_in_vain(answers, began):
                    report = self._report(waiting, time.time() - began)
                    self._leave_cell(number)
        except KeyboardInterrupt:
            if any(each["number"] == number for each in read_json_lines(self._folder.requests)):
                self._leave_cell(number, interrupt=True)
            raise RunInterrupted(self.run, "goes on: only the cell was interrupted") from None
        finally:
            show(self._answers(number), True)
        _raise_errors(answers, report)
        return answers

    def _explain_end(self) -> NoReturn:
        """Raise CellFailed with the launcher's report on the run, which is over."""
        self._end()
        failure = self.run.failure
        sentence, parts = f"run {self.run.id} is over ({self.run.state})", []
        if failure:
            sentence, parts = failure.sentence, [failure.traceback, *failure.remarks]
        raise CellFailed(f"{sentence}; the next %%ranks cell starts new ranks", "\n\n".join(filter(None, parts)))

    # ---------------------------------------------------------------- leaving a cell

    def _waiting_in_vain(self, answers: dict[int, dict], began: float) -> list[int]:
        """Return the ranks in the cell if the supervisor has found, since `began`, that all of them wait for others."""
        if time.time() - began < 1:  # reading files would slow the ranks down
            return []
        ranks = [rank for rank in self._readers if rank not in answers]
        records = [read_json(self._folder.stalled(rank)) or {} for rank in ranks]
        return ranks if all(each.get("waits") and each["since"] > began - 1 for each in records) else []

    def _report(self, ranks: list[int], seconds: float) -> str:
        others = [rank for rank in self._readers if rank not in ranks]
        why = f"for {name_ranks(others)}, which left the cell" if others else "in collectives that don't match"
        sentence = f"{name_ranks(ranks)} waited {why}. The cell was ended after {seconds:.0f} s."
        return f"{sentence}\n{stacks_of(self._folder, ranks)}"

    def _leave_cell(self, number: int, interrupt: bool = False) -> None:
        """Make the ranks that have not answered leave the cell; end all ranks if that fails."""
        try:
            # A signal may come just before a system call, which then waits: so send several.
            tries = range(INTERRUPTS if interrupt else 0)
            left = any(self._send("interrupt") and self._answered(number, INTERRUPT_S) for _ in tries)
            if not left:
                self._send("leave")
                again = self._answered(number, LEAVE_S) and self._answered(self._send("left_all"), REJOIN_S)
                left = again and self._answered(self._send("rejoin"), REJOIN_S)
        except BaseException:  # such as a second interrupt
            self._end()
            raise
        if not left:
            self._end()
            raise CellFailed("the ranks could not leave the cell, so all were ended, with their variables")


def _raise_errors(answers: dict[int, dict], report: str) -> None:
    """Raise CellFailed if ranks report errors, each different one once, or if there is a report."""
    errors = {rank: answer["error"] for rank, answer in sorted(answers.items()) if answer.get("error")}
    first = {rank: error for rank, error in errors.items() if not any(sign in error["line"] for sign in SECONDARY)}
    shown = first or ({} if report else errors)
    texts = grouped({rank: error["traceback"].rstrip() for rank, error in shown.items()})
    parts = [f"{name_ranks(ranks)} raised:\n{text}" for text, ranks in texts.items()]
    if shown:
        ranks = next(iter(texts.values()))
        sentence = f"{name_ranks(ranks)} raised {shown[ranks[0]]['line']}"
        raise CellFailed(sentence, "\n\n".join(filter(None, [*parts, report])))
    if report:
        raise CellFailed(report.partition(".")[0], report)


class Outputs:
    """Output of the ranks in one cell, under their labels; `begins` is what their logs had before, in bytes."""

    def __init__(self, folder: RunFolder, begins: dict[int, int]) -> None:
        self._folder, self._begins = folder, begins
        self._handle, self._due = None, time.monotonic() + SHOW_S

    def show(self, answers: dict[int, dict], last: bool = False) -> None:
        """Show what the ranks have printed, now and then. In a notebook that nobody watches, only the end is shown."""
        if not last and (time.monotonic() < self._due or not style.is_live()):
            return
        ends = {rank: answer["log_bytes"] for rank, answer in answers.items()}
        logs = {rank: self._folder.log(rank) for rank in self._begins}
        if last:
            wait_until(lambda: all(logs[rank].stat().st_size >= end for rank, end in ends.items()), LOG_S)
        texts = {rank: section(logs[rank], begin, ends.get(rank)) for rank, begin in self._begins.items()}
        self._draw(grouped({rank: printable(text.strip("\n")) for rank, text in texts.items() if text.strip()}))
        self._due = time.monotonic() + SHOW_S
        self._begins |= ends if last else {}

    def _draw(self, texts: dict[str, list[int]]) -> None:
        from IPython.display import display

        parts = [(name_ranks(ranks), text) for text, ranks in texts.items()]
        rows = "".join(f"<b>{label}</b><pre>{escape(text)}</pre>" for label, text in parts)
        bundle = {
            "text/plain": "\n".join(f"{label}:\n{text}" for label, text in parts),
            "text/html": f'{style.STYLE}<div class="ddl ddl-output">{rows}</div>',
        }
        if self._handle:
            self._handle.update(bundle, raw=True)
        elif parts:
            self._handle = display(bundle, raw=True, display_id=True)
