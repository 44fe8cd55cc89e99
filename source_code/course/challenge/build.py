"""From a submission's file to the graphs that ranks train: asked of a builder process, whose answer is only data."""

import base64
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course.challenge import rules
from course.challenge.rules import Refused
from course.grader import channel
from ddl.errors import InputError
from ddl.records import files as kept
from ddl.records.jsonfiles import read_json, write_json

BASELINE = Path(__file__).parent / "submissions" / "baseline.py"
COMMAND = [sys.executable, "-I", "-m", "course.challenge.builder"]
ANSWER_BYTES = 256 * 2**20
FILE = "built.json"


@dataclass(frozen=True)
class Built:
    """A submission as graphs and initial values, in a folder that ranks read."""

    folder: Path
    file: str  # SHA-256 of the submission's bytes, in hexadecimal digits
    file_name: str
    seeds: tuple[int, ...]  # whose initial values the folder has
    settings: dict  # what SETTINGS names

    @classmethod
    def at(cls, folder: Path) -> "Built":
        """Read what `build` has left in a folder; InputError where there is nothing."""
        described = read_json(folder / FILE)
        if not described:
            raise InputError(f"{folder} holds no built submission: build one there.")
        seeds = tuple(described["seeds"])
        return cls(folder, described["file"], described["file_name"], seeds, described["settings"])


def build(
    path: str | Path,
    seeds: Sequence[int],
    into: str | Path,
    start: Callable[[list[str]], channel.Channel] | None = None,
    timeout_s: float = 300.0,
) -> Built:
    """Run a submission's file once, in a process of its own, and keep its graphs and initial values in a folder.

    `seeds` are those of the initial values, 0 to 2**31 - 1, and the folder `into` is empty or not there yet. `start`
    starts the builder's command, such as in a sandbox; by default it runs as this user, and the kernel keeps it from
    files and network where it can. Refused, where the file breaks a rule, fails or does not end; InputError, where
    there is none, or something in the folder.
    """
    path, into = Path(path), Path(into)
    source = read_file(path)
    try:
        text = source.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{path.name} is not a Python file in UTF-8 ({error})") from None
    if into.exists() and any(into.iterdir()):
        raise InputError(f"{into} is not empty: build into a new folder.")
    request = {"name": path.name, "source": text, "baseline": BASELINE.read_text(), "seeds": list(map(int, seeds))}
    with tempfile.TemporaryDirectory(prefix="ddl-builder-") as scratch:
        answer = _ask(request, start or (lambda command: _start(command, scratch)), path.name, timeout_s)
    if "refused" in answer:
        raise Refused(str(answer["refused"]))
    return _keep(answer, into, {"file": hashlib.sha256(source).hexdigest(), "file_name": path.name})


def read_file(path: Path) -> bytes:
    """Return a submission's bytes; InputError where it cannot be read, and Refused where it is too large."""
    try:
        with open(path, "rb") as file:
            source = file.read(rules.FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a submission's file.") from error
    if len(source) > rules.FILE_BYTES:
        raise Refused(
            f"{path.name} is larger than {rules.FILE_BYTES:,} bytes: a submission is a program, without weights or data"
        )
    return source


def _start(command, scratch):
    """Start a builder here: nothing of this process's environment tells it where data and runs are."""
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    environment |= {"HOME": scratch, "TMPDIR": scratch, "LANG": "C.UTF-8"}
    return channel.Channel(command, cwd=scratch, env=environment)


def _ask(request, start, name, timeout_s):
    process = start(COMMAND)
    try:
        return process.ask(request, timeout_s, ANSWER_BYTES)
    except channel.Late:
        raise Refused(
            f"{name}: it was not built within {timeout_s:g} s; its functions should describe a training, not train"
        ) from None
    except channel.Ended as error:
        last = f" ({process.last_words[:300]})" if process.last_words else ""
        raise Refused(f"{name}: the process that builds it gave no answer: {error}{last}") from None
    finally:
        process.kill()  # with all that the file has started


def _keep(answer, into, facts):
    """Write what a builder answers into the folder; the description comes last, and makes it complete."""
    try:
        files = {str(name): base64.b64decode(content, validate=True) for name, content in answer["files"].items()}
        if not all(re.fullmatch(r"[a-z_]+\.pb|start-\d+\.npz", name) for name in files):
            raise ValueError(f"files of the names {', '.join(files)}"[:200])
        described = {
            **facts,
            "settings": {name: answer["settings"][name] for name in SETTINGS},
            "seeds": [int(seed) for seed in answer["seeds"]],
            "variables": list(answer["variables"]),
            "functions": dict(answer["functions"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refused(f"{facts['file_name']}: what was built is not what the harness reads ({error!r})") from None
    into.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        kept.write(into / name, content)
    write_json(into / FILE, described)
    return Built.at(into)


SETTINGS = (
    *("samples", "ghost_batch", "compression", "precision", "parameters", "prepare", "finish"),
    *("passes", "prepare_samples"),
)
