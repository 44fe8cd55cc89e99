"""Cells on live ranks: ``%load_ext ddl`` brings ``%%ranks`` and ``%ranks`` to a notebook.

The ranks are a run of `launch`, so records, views, reports on failures and `ddl stop` work for them.
"""

import atexit
import os
import secrets
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from html import escape
from importlib.util import find_spec
from io import StringIO
from multiprocessing.connection import Client, Connection, wait
from typing import Any, NoReturn

from ddl.arguments import Parser
from ddl.display import style
from ddl.errors import CourseError, InputError
from ddl.follow.crash_report import SECONDARY, name_ranks, stacks_of
from ddl.follow.processes import wait_until
from ddl.follow.run import RunInterrupted
from ddl.job.timeouts import TERM_GRACE_S
from ddl.live.loop import KEY, plain
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json
from ddl.records.log import CHUNK_BYTES, LogTail
from ddl.start import fork_client
from ddl.start.core_queue import QUEUE
from ddl.start.launch import launch
from ddl.text import printable

LOOP = "-m ddl.live.loop"
POLL_S, SHOW_S = 0.1, 0.5
# For ranks to leave a cell on their own, or once their collectives have failed, and to connect again.
INTERRUPT_S, LEAVE_S, REJOIN_S = 2.0, 5.0, 30.0
LOG_S = 5.0  # for a network's file system to show what another host has written
HELP = "%%ranks 2 above a cell; %ranks, %ranks stop, %ranks push NAME ..., %ranks pull NAME ..."


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
        key = secrets.token_hex(32)
        env = {KEY: key, QUEUE: ""}  # most of the time they are idle: they take no turn
        run = launch(LOOP, name="ranks", env=env, wait=False, **options)
        assert run
        self.run, self.options, self.number, self.over = run, options, 0, False
        self._folder, ranks = RunFolder(run.folder), range(run.job["ranks"])
        self._tails = {rank: LogTail(self._folder.log(rank), CHUNK_BYTES) for rank in ranks}
        self._connections: dict[int, Connection] = {}
        try:
            for rank in ranks:
                self._connections[rank] = self._connect(rank, bytes.fromhex(key))
        except BaseException:
            run.stop()
            raise

    def _connect(self, rank: int, key: bytes) -> Connection:
        path = self._folder.live(rank)
        while not self.run.progress().over:
            directory = os.open(self.run.folder, os.O_RDONLY)  # a socket's path has at most 107 characters
            try:
                address = None if path.is_socket() else read_json(path)
                if address or path.is_socket():
                    place = tuple(address["address"]) if address else f"/proc/self/fd/{directory}/{path.name}"
                    return Client(place, authkey=key)
            except ConnectionRefusedError:  # the socket is there, and does not listen yet
                pass
            finally:
                os.close(directory)
            time.sleep(0.01)
        return self._explain_end()

    def execute(self, source: str) -> None:
        """Run a cell on all ranks and show what each prints; CellFailed if it fails on some."""
        self.number += 1
        outputs = Outputs(self._folder, self._tails)
        answers: dict[int, dict] = {}
        try:
            report = self._gather(("cell", self.number, source), answers, outputs)
        finally:
            outputs.close(answers)
        _raise_errors(answers, report)

    def ask(self, *request: object) -> dict[int, dict]:
        """Send a request to all ranks; return their answers by rank. CellFailed if it fails on some."""
        answers: dict[int, dict] = {}
        self._gather(request, answers)
        _raise_errors(answers)
        return answers

    def stop(self) -> None:
        """Tell the ranks to end, and wait until they are gone."""
        for connection in self._connections.values():
            connection.close()
        self._await_end(LEAVE_S)

    def _await_end(self, timeout_s: float) -> None:
        """Wait until the run is over; end it after this time, as a thread that a cell has started may go on."""
        wait_until(lambda: self.run.progress().over, timeout_s)
        self.run.stop()
        self.run.wait(view=Quiet())

    def _explain_end(self) -> NoReturn:
        """Wait until the run is over, and raise CellFailed with the launcher's report."""
        self._await_end(TERM_GRACE_S + LEAVE_S)
        self.over, failure = True, self.run.failure
        sentence, parts = f"run {self.run.id} is over ({self.run.state})", []
        if failure:
            logs = "logs: " + "\n      ".join(map(str, failure.logs))
            sentence, parts = failure.sentence, [failure.traceback, failure.others, failure.advice, logs]
        raise CellFailed(f"{sentence}; the next %%ranks cell starts new ranks", "\n\n".join(filter(None, parts)))

    # ---------------------------------------------------------------- waiting for answers

    def _gather(self, request: tuple, answers: dict[int, dict], outputs: "Outputs | None" = None) -> str:
        """Send a request and wait for all answers. Return a report if ranks waited in vain for others."""
        began, report = time.time(), ""
        try:
            self._send(request, self._connections)
            while missing := self._missing(answers):
                self._receive(answers, POLL_S)
                if outputs:
                    outputs.update()
                if self._wait_in_vain(self._missing(answers), began):
                    report = self._report(missing, time.time() - began)
                    self._leave_cell(answers)
        except KeyboardInterrupt:
            self._leave_cell(answers, interrupt=True)
            raise RunInterrupted(self.run, "goes on: only the cell was interrupted") from None
        except (EOFError, OSError):
            self._explain_end()
        return report

    def _send(self, request: tuple, ranks: Any) -> None:
        with late_interrupt():
            for rank in ranks:
                self._connections[rank].send(request)

    def _missing(self, answers: dict[int, dict]) -> list[int]:
        return [rank for rank in self._connections if rank not in answers]

    def _receive(self, answers: dict[int, dict], timeout_s: float) -> None:
        ranks: dict[Any, int] = {self._connections[rank]: rank for rank in self._missing(answers)}
        for connection in wait(list(ranks), timeout_s):
            with late_interrupt():
                answers[ranks[connection]] = connection.recv()

    def _wait_in_vain(self, ranks: list[int], began: float) -> bool:
        """Return whether the supervisor has found, since `began`, that all these ranks wait for others."""
        records = [read_json(self._folder.stalled(rank)) or {} for rank in ranks]
        return bool(ranks) and all(each.get("waits") and each["since"] > began - 1 for each in records)

    def _report(self, ranks: list[int], seconds: float) -> str:
        others = [rank for rank in self._connections if rank not in ranks]
        why = f"for {name_ranks(others)}, which left the cell" if others else "in collectives that don't match"
        sentence = f"{name_ranks(ranks)} waited {why}. The cell was ended after {seconds:.0f} s."
        return f"{sentence}\n{stacks_of(self._folder, ranks)}"

    def _await(self, answers: dict[int, dict], timeout_s: float, *again: str) -> bool:
        """Return whether all ranks answer in time; send `again` now and then to those that have not answered."""
        deadline = time.monotonic() + timeout_s
        while (missing := self._missing(answers)) and time.monotonic() < deadline:
            self._send(again, missing if again else ())
            self._receive(answers, SHOW_S)
        return not missing

    def _leave_cell(self, answers: dict[int, dict], interrupt: bool = False) -> None:
        """Make the ranks that have not answered leave the cell; end all ranks if that fails."""
        try:
            # A signal may come just before a system call, which then waits: so send several.
            left = interrupt and self._await(answers, INTERRUPT_S, "interrupt")
            if not left:
                self._send(("leave",), self._connections)
                left = self._await(answers, LEAVE_S)
                for request in ("left_all", "rejoin") if left else ():
                    self._send((request,), self._connections)
                    left = left and self._await({}, REJOIN_S)
        except (EOFError, OSError):
            self._explain_end()
        except BaseException:  # such as a second interrupt
            self._end()
            raise
        if not left:
            self._end()
            raise CellFailed("the ranks could not leave the cell, so all were ended, with their variables")

    def _end(self) -> None:
        self.over = True
        self.run.stop()


def _raise_errors(answers: dict[int, dict], report: str = "") -> None:
    """Raise CellFailed if ranks report errors, each different one once, or if there is a report."""
    errors = {rank: answer["error"] for rank, answer in sorted(answers.items()) if answer["error"]}
    first = {rank: error for rank, error in errors.items() if not any(sign in error["line"] for sign in SECONDARY)}
    shown = first or ({} if report else errors)
    parts = [
        f"{name_ranks(ranks)} raised:\n{text.rstrip()}"
        for text, ranks in grouped({rank: error["traceback"] for rank, error in shown.items()})
    ]
    if shown:
        line, ranks = grouped({rank: error["line"] for rank, error in shown.items()})[0]
        raise CellFailed(f"{name_ranks(ranks)} raised {line}", "\n\n".join(filter(None, [*parts, report])))
    if report:
        raise CellFailed(report.partition(".")[0], report)


class Quiet:
    """A view of a run that shows nothing: its output stands below the cells."""

    def update(self, progress: object) -> None:
        pass

    close = update


@contextmanager
def late_interrupt() -> Iterator[None]:
    """Hold an interrupt back until a whole message has been sent or received."""
    if threading.current_thread() is not threading.main_thread():  # interrupts go to the main thread
        yield
        return
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt


def grouped(texts: dict[int, str]) -> list[tuple[str, list[int]]]:
    """Return each different text with the ranks that have it."""
    groups: dict[str, list[int]] = {}
    for rank, text in texts.items():
        groups.setdefault(text, []).append(rank)
    return list(groups.items())


class Outputs:
    """Output of the ranks in one cell, with the value of its last expression, under their labels."""

    def __init__(self, folder: RunFolder, tails: dict[int, LogTail]) -> None:
        self._folder, self._tails, self._texts = folder, tails, dict.fromkeys(tails, "")
        self._handle, self._due = None, time.monotonic() + SHOW_S

    def update(self) -> None:
        """Show what is new now and then. In a notebook that nobody watches, only the end is shown."""
        if time.monotonic() >= self._due and style.is_live():
            self._read({})
            self._show({rank: self._texts[rank] + tail.current for rank, tail in self._tails.items()})
            self._due = time.monotonic() + SHOW_S

    def close(self, answers: dict[int, dict]) -> None:
        """Show all that the ranks had printed when they answered."""
        sizes = {rank: answer["log_bytes"] for rank, answer in answers.items()}
        logs = {self._folder.log(rank): size for rank, size in sizes.items()}
        wait_until(lambda: all(log.stat().st_size >= size for log, size in logs.items()), LOG_S)
        self._read(sizes)
        for rank, answer in answers.items():
            rest = (self._tails[rank].take_current(), answer["value"])
            self._texts[rank] += "".join(f"{text}\n" for text in rest if text)
        self._show(self._texts)

    def _read(self, before: dict[int, int]) -> None:
        for rank, tail in self._tails.items():
            self._texts[rank] += "".join(f"{line}\n" for line in tail.lines(before.get(rank)))
            if tail.skipped_bytes:
                self._texts[rank] += f"… {tail.skipped_bytes / 1e6:,.1f} MB are only in {self._folder.log(rank)}\n"

    def _show(self, texts: dict[int, str]) -> None:
        from IPython.display import display

        found = {rank: printable(text.strip("\n")) for rank, text in texts.items() if text.strip()}
        parts = [(name_ranks(ranks), text) for text, ranks in grouped(found)]
        rows = "".join(f"<b>{label}</b><pre>{escape(text)}</pre>" for label, text in parts)
        bundle = {
            "text/plain": "\n".join(f"{label}:\n{text}" for label, text in parts),
            "text/html": f'{style.STYLE}<div class="ddl ddl-output">{rows}</div>',
        }
        if self._handle:
            self._handle.update(bundle, raw=True)
        elif parts:
            self._handle = display(bundle, raw=True, display_id=True)


# ---------------------------------------------------------------- the magics

_live: LiveRanks | None = None


def load_ipython_extension(shell: Any) -> None:
    """Add ``%%ranks`` and ``%ranks`` to a notebook, and warm up the fork server for the first cell."""
    shell.register_magic_function(partial(_ranks, shell), "line_cell", "ranks")
    atexit.register(stop)
    if os.environ.get("DDL_WARM") != "no" and fork_client.can_import():
        fork_client.connection()


def stop() -> None:
    """End this notebook's live ranks, if there are any."""
    global _live
    ended, _live = _live, None
    if ended and not ended.over:
        ended.stop()


def pull(name: str) -> list:
    """Return a variable of the live ranks, as ``%ranks pull`` does: its value on each rank, in their order."""
    if not _live or _live.over:
        raise InputError(f"no ranks are live: {HELP}")
    answers = _live.ask("pull", name)
    return [answers[rank]["value"] for rank in sorted(answers)]


def _ranks(shell: Any, line: str, cell: str | None = None) -> Any:
    """Run a cell on live ranks: %%ranks [N] [--cluster C] [--site FILE] [--nodes N] [--threads N] [--oversubscribe].

    %ranks shows the ranks' run, %ranks stop ends them, %ranks push NAME ... copies variables of the notebook to every
    rank, and %ranks pull NAME ... copies them back, as a list with one value for each rank.
    """
    words = shlex.split(line)
    if cell is not None:
        return _ranks_for(_options(words)).execute(f"\n{cell}")  # so that lines have the notebook's numbers
    command, names = (words or [""])[0], words[1:]
    if command == "stop" and not names:
        return stop()
    if not _live or _live.over:
        raise InputError(f"no ranks are live: {HELP}")
    if not words:
        return _live.run
    if command == "push" and names:
        if missing := [name for name in names if name not in shell.user_ns]:
            raise InputError(f"the notebook has no variable {missing[0]!r}")
        _live.ask("push", {name: plain(shell.user_ns[name], name) for name in names})
    elif command == "pull" and names:
        shell.user_ns.update({name: pull(name) for name in names})
    else:
        raise InputError(f"%ranks {line}: {HELP}")
    return None


class _Line(Parser):
    """The parser of a cell's first line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"%%ranks: {message}")


def _options(words: list[str]) -> dict[str, Any]:
    """Return the options of `launch` that are given in a cell's first line; InputError if one is unknown."""
    parser = _Line(add_help=False)
    parser.add_argument("workers", type=int, nargs="?")
    for name, kind in (("cluster", str), ("site", str), ("nodes", int), ("threads", int)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--oversubscribe", action="store_true", default=None)
    return {name: value for name, value in vars(parser.parse_args(words)).items() if value is not None}


def _ranks_for(options: dict[str, Any]) -> LiveRanks:
    """Return the live ranks; start new ones if there are none, or none with these options.

    A line without options starts ranks like those that are over.
    """
    global _live
    progress = _live.run.progress() if _live else None
    default = {"workers": 2, "cluster": "horovod" if find_spec("horovod") else "torchrun"}
    chosen = default | (options or (_live.options if _live else {}))
    if _live and progress and progress.over and not progress.failure:
        print(f"# run {_live.run.id} is over ({progress.state}): new ranks start, without its variables")
        stop()
    elif _live and any(_live.options.get(name) != value for name, value in options.items()):
        with redirect_stdout(StringIO()):  # what cannot start ends no ranks
            launch(LOOP, dry_run=True, **chosen)
        print(f"# the ranks of run {_live.run.id} end, with their variables: this cell asks for others")
        stop()
    if not _live or _live.over:
        _live = LiveRanks(**chosen)
    return _live
