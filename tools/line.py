"""Status line of a long step: redrawn in a terminal, otherwise repeated every ten seconds."""

import shutil
import sys
import time

SILENCE_S = 10


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

    def keep(self, text: str) -> None:
        """Print a line that stays, above this one."""
        print(f"\r\033[K{text}" if self.terminal else text, flush=True)

    def end(self, detail: str = "") -> None:
        self.shown = -SILENCE_S
        self.show(detail)
        if self.terminal:
            print(flush=True)
