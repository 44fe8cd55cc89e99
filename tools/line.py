"""The line that a long step shows while it runs, and the command that it waits for."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

POLL_S = 0.5
SILENCE_S = 10  # where no terminal redraws the line, print one this often
GRACE_S = 10  # what an interrupted command gets to end by itself


class CommandError(Exception):
    """A command failed: `log` has all its output."""

    def __init__(self, name: str, code: int, log: Path) -> None:
        tail = "\n".join(f"    {line}" for line in last_lines(log)[-15:])
        super().__init__(f"{name} failed (exit code {code}); all it said is in {log}\n{tail}")
        self.log = log


class Line:
    """One step's line: redrawn in a terminal, elsewhere repeated every ten seconds."""

    def __init__(self, title: str, name: str) -> None:
        self.title, self.name = title, name
        self.started = self.shown = time.monotonic()
        self.mode = "wb"  # the first command of a line begins its log anew
        self.terminal = sys.stdout.isatty()
        if self.terminal:
            self.show("")
        else:
            print(f"{title}  {name} …", flush=True)

    def show(self, detail: str) -> None:
        now = time.monotonic()
        if not self.terminal and now - self.shown < SILENCE_S:
            return
        self.shown = now
        text = f"{self.title}  {self.name:<14} {now - self.started:4.0f} s  {detail}".rstrip()
        if self.terminal:
            print(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
        else:
            print(text[:160], flush=True)

    def end(self, detail: str = "") -> None:
        self.shown = -SILENCE_S
        self.show(detail)
        if self.terminal:
            print(flush=True)

    def run(self, command: list, log: Path, env: Mapping[str, str], **options) -> None:
        """Run a command: its output goes to the log, its latest line to the screen.

        Interrupted, it ends the command and all that this started. Raises CommandError where the command fails.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open(self.mode) as file:
            self.mode = "ab"
            file.write(f"\n$ {' '.join(map(str, command))}\n".encode())
            file.flush()
            with deferred_interrupts() as interrupts:  # one that came while it starts would leave it running
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env,
                    start_new_session=True, **options,
                )  # fmt: skip
            try:
                if interrupts:
                    raise KeyboardInterrupt
                while (code := wait(process, POLL_S)) is None:
                    self.show(latest(log))
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                wait(process, GRACE_S)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if code:
            raise CommandError(self.name, code, log)


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[list[int]]:
    """Give the list of the signals that would have interrupted what is done meanwhile."""
    caught: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if threading.current_thread() is not threading.main_thread():
        before = {}  # which Python never interrupts
    before = {number: handler for number, handler in before.items() if callable(handler)}
    for number in before:
        signal.signal(number, lambda number, frame: caught.append(number))
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait(process: subprocess.Popen, timeout_s: float) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout_s)
    return None


def last_lines(log: Path) -> list[str]:
    """The end of a log, line by line, whatever redrew them and however they are encoded."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2**16))
        text = file.read().decode(errors="replace")
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()] or [""]


def latest(log: Path) -> str:
    """The last line of the last command; of a compiler, rather its last line of progress."""
    lines = [line.strip() for line in last_lines(log)]
    for line in reversed(lines):
        if re.match(r"\[ *\d+%\]", line):
            return line
        if line.startswith("$ "):
            break
    return lines[-1]
