"""Views of a run that goes on: a live panel in JupyterLab, plain lines elsewhere.

The launcher calls ``update(progress)`` several times per second and ``close(progress)`` once. Views draw less often,
because the cores are busy training.
"""

import os
import shutil
import sys
import time

from ddl.display.panel import LiveView
from ddl.display.style import data_label, is_live
from ddl.display.summary import duration, epoch_of, facts_of, number, outcome, ranks_of, speed_unit
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import DamagedFile, read_json
from ddl.records.log import CHUNK_BYTES, LogTail
from ddl.text import printable, writable

__all__ = ["LiveView", "PlainView", "of"]

HEARTBEAT_S = 9.0  # plus the launcher's polling interval: at most ten seconds of silence


def of(run):
    """Return the view for `run`."""
    return LiveView(run) if is_live() else PlainView(run)


class PlainView:
    """Lines for terminals, papermill and logs: changes, evaluations, a heartbeat and the end.

    In a terminal, the script's progress bar is redrawn in place; elsewhere, the heartbeat includes it.
    """

    def __init__(self, run, clock=time.monotonic):
        self._clock = clock
        self._last = clock()
        self._redraws = bool(sys.stdout and sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
        self._drawn = ""
        self._seen = {}  # last values, by kind
        self._evaluations = 0
        self._tails = {}  # readers of the ranks' logs

    def update(self, progress):
        """Print what is new or, after nine seconds without news, the current state."""
        if self._is_new("line", progress.shell_line):
            self._print(f"$ {progress.shell_line}")
        if self._is_new("ranks", max(len(progress.ranks), self._seen.get("ranks", 0))):
            self._say(progress, ranks_of(progress))
        if self._is_new("waiting", progress.waiting):
            self._say(progress, progress.waiting)
        if not progress.over and self._is_new("state", progress.state):
            data = f", data: {data_label(progress.data)}" if progress.data else ""
            self._say(progress, f"{progress.state} {progress.name}{data}")
        for note in progress.notes:
            if self._is_new(f"note {note}", note):
                self._say(progress, f"note: {note}")
        for row in progress.history[self._evaluations :]:
            self._say(progress, _evaluation(row, progress))
        self._evaluations = len(progress.history)
        if not progress.announced:
            self._echo(progress)
        failure = progress.failure
        if failure and progress.over and self._is_new("failure", failure.sentence):
            parts = [failure.sentence]
            if failure.output and progress.announced:
                parts.append("\n".join([f"rank {failure.rank}'s last lines:", *failure.output]))
            self._print("\n\n".join(filter(None, [*parts, failure.traceback.rstrip()])))
        if self._clock() - self._last >= HEARTBEAT_S:
            facts = facts_of(progress) if progress.step else [ranks_of(progress)]
            self._say(progress, " · ".join(filter(None, [progress.state, *facts, self._current()])))
        self._draw(progress)

    def _is_new(self, kind, value):
        """Return whether a value is set and differs from the last one of its kind."""
        before, self._seen[kind] = self._seen.get(kind), value
        return bool(value) and value != before

    def close(self, progress):
        """Print what is new, advice on a failure, and how the run ended."""
        self.update(progress)
        if failure := progress.failure:
            for remark in failure.remarks:
                self._print(remark)
        self._print(outcome(progress))

    def _echo(self, progress):
        """Print the ranks' output; used for scripts that announce no numbers instead."""
        folder = RunFolder(progress.folder)
        for rank in range(max([progress.world, *(each.rank + 1 for each in progress.ranks)])):
            tail = self._tails.setdefault(rank, LogTail(folder.log(rank), CHUNK_BYTES))  # keeps up with a flood
            lines = [f"[{rank}] {line}" for line in tail.lines(_before_traceback(folder, rank))]
            if tail.skipped_bytes:
                lines.insert(0, f"[{rank}] … {tail.skipped_bytes / 1e6:,.1f} MB are not shown: {folder.log(rank)}")
            if lines:
                self._print("\n".join(lines))
            if progress.over and (line := tail.take_current()):
                self._print(f"[{rank}] {line}")

    def _current(self):
        """Return the unfinished line of a rank, such as a progress bar."""
        return next(
            (f"[{rank}] {printable(tail.current)}" for rank, tail in self._tails.items() if tail.current.strip()), ""
        )

    def _draw(self, progress):
        if not self._redraws or progress.over:
            return
        line = self._current()[: shutil.get_terminal_size().columns - 1]
        if line != self._drawn:
            print(f"\r{writable(line)}\x1b[K", end="", flush=True)
            self._drawn, self._last = line, self._clock()

    def _say(self, progress, text):
        self._print(f"[{duration(progress.elapsed_s):>5}] {text}")

    def _print(self, text):
        if self._drawn:
            print("\r\x1b[K", end="")
            self._drawn = ""
        print(writable(printable(text)), flush=True)
        self._last = self._clock()


def _before_traceback(folder, rank):
    """Return the offset of a rank's traceback in its log, or the log's size: the traceback is shown separately.

    The size is read first because the rank records its error before it prints the traceback.
    """
    try:
        size = folder.log(rank).stat().st_size
        error = read_json(folder.error(rank)) or {}
    except (OSError, DamagedFile):
        return 0
    return min(size, error.get("log_bytes", size))


def _evaluation(row, progress):
    return (
        f"{epoch_of(row.get('epoch'), progress.epochs)} · step {row.get('step', '–')}"
        f" · {number(row.get('images_per_s'), ',.0f')} {speed_unit(progress.data)}"
        f" · loss {number(row.get('loss'), '.3f')}"
        f" · held-out accuracy {number(row.get('test_accuracy'), '.1%')}"
    )
