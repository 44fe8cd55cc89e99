"""Commands that are asked about a site."""

import subprocess
from dataclasses import dataclass

PATIENCE_S = 30


@dataclass(frozen=True)
class Answer:
    """A command's answer: whether it failed, its output, and its message for people."""

    refused: bool
    text: str
    words: str


def ask(*argv: str) -> Answer:
    """Run a command that is over soon; return what it says."""
    try:
        asked = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return Answer(True, "", f"{argv[0]} is not here")
    except subprocess.TimeoutExpired:
        return Answer(True, "", f"{argv[0]} did not answer within {PATIENCE_S} s")
    words = " ".join(asked.stderr.split()) or " ".join(asked.stdout.split())
    return Answer(asked.returncode != 0, asked.stdout, words or f"exit {asked.returncode}")
