"""Status line of a long step: redrawn in a terminal, otherwise repeated every ten seconds."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from ddl.records.log import last_lines

SILENCE_S = 10
POLL_S = 0.5
CELL = re.compile(r"Executing Cell (\d+)-")  # papermill's line before each


class Line:
    """A step's status line."""

    def __init__(self, title: str, name: str) -> None:
        self.title, self.name = title, name
        self.started = self.shown = time.monotonic()
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


def follow(command: list, log: Path, env: dict[str, str], line: Line, cells: int) -> int:
    """Run papermill with its output in a log, show which of the cells runs, and return the exit status."""
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env) as process,
    ):
        try:
            while process.poll() is None:
                lines = last_lines(log, 1000)
                begun = [found[1] for text in lines if (found := CELL.match(text))]
                line.show(f"cell {begun[-1]} of {cells}" if begun else "".join(lines[-1:]))
                time.sleep(POLL_S)
        except BaseException:
            process.terminate()
            raise
    return process.returncode
