"""A file's scores: the seeds drawn for it, noted before anything runs, and what became of each run.

One ``journal.json`` for each file and its pictures, below ``challenge/`` in the runs folder. It is replaced whole and
synced, so that an interrupt at any moment leaves the old or the new one, and no seed is drawn twice for one look.
"""

import ast
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from course.challenge.rules import CHANCE
from course.challenge.verdict import Score
from ddl.errors import CourseError
from ddl.records import files
from ddl.records.folder import StorageError
from ddl.records.jsonfiles import DamagedFile, read_json
from ddl.records.paths import runs_dir

SUBMISSION, BASELINE = "submission", "baseline"
NAME = "journal.json"
NEEDS = dict(file=str, name=str, data=str, workers=int, trial=dict, drawn=float, program=str, number=int, looks=list)
SEED_BITS, SECRET_BITS = 31, 62


@dataclass(eq=False)
class Entry:
    """One run of a look: what it is, and what became of it."""

    role: str  # SUBMISSION or BASELINE
    pair: int  # runs of one pair have the same seeds
    seed: int  # of the initial weights: the builder gets it
    secret: int  # of order, renaming and augmentation: only the ranks get it
    run: str | None = None  # the id of the run that is under way, or over
    interrupted: list[str] = field(default_factory=list)  # runs that were stopped, and run again with these seeds
    accuracy: float | None = None  # on the private pictures; CHANCE after a crash
    samples: int | None = None
    seconds: float | None = None
    public_accuracy: float | None = None
    crash: str = ""  # why it crashed

    def __post_init__(self) -> None:
        numbers = [self.seed, self.secret, self.pair]
        if self.role not in (SUBMISSION, BASELINE) or not all(type(number) is int for number in numbers):
            raise ValueError("without proper seeds")
        if self.accuracy is not None and not (isinstance(self.accuracy, (int, float)) and 0 <= self.accuracy <= 1):
            raise ValueError("with an accuracy outside 0 to 1")

    @property
    def over(self) -> bool:
        return self.accuracy is not None


def sha256(content: bytes) -> str:
    """The name of a file's bytes."""
    return hashlib.sha256(content).hexdigest()


def program_of(content: bytes) -> str:
    """The name of what a file does: other comments, docstrings and line breaks do not change it."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return sha256(content)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [
                each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ]
    return sha256(ast.dump(tree).encode())


def folder_of(digest: str, data: str, trial: Mapping[str, int], root: Path | None = None) -> Path:
    """Where the journal of a file's bytes lies, apart for each data set and trial size."""
    parts = [digest[:16], *([data] if data != "cifar10" else []), *(f"{key}={trial[key]}" for key in sorted(trial))]
    return (root or runs_dir() / "challenge") / "-".join(parts)


def journals(root: Path | None = None) -> list["Journal"]:
    """All journals below a folder, oldest first; a damaged one is left out."""
    found = []
    for path in (root or runs_dir() / "challenge").glob(f"*/{NAME}"):
        with suppress(DamagedFile):
            found.append(Journal.read(path.parent))
    return sorted((journal for journal in found if journal), key=lambda journal: journal.drawn)


@dataclass(eq=False)
class Journal:
    """The scores of one file's bytes."""

    folder: Path
    file: str  # the SHA-256 of the bytes
    name: str  # the file's
    data: str  # the pictures: "cifar10" or "synthetic"
    workers: int  # ranks of each run
    trial: dict[str, int] = field(default_factory=dict)  # sizes that are cut; such runs count for nothing
    drawn: float = 0.0  # when the first seeds were, in seconds since the epoch
    program: str = ""  # the `program_of` the file
    # How many looks there were when the last one was drawn: all of the same program, or of one student.
    number: int = 0
    looks: list[list[Entry]] = field(default_factory=list)  # the runs of each, in the order in which they are run
    student: bool = False  # whether the folder has one student's journals

    @classmethod
    def read(cls, folder: Path) -> "Journal | None":
        """Read the journal in a folder; None where there is none. DamagedFile says what is wrong with it."""
        path = folder / NAME
        found = read_json(path, NEEDS)
        if found is None:
            return None
        try:
            looks = [[Entry(**entry) for entry in look] for look in found["looks"]]
        except (TypeError, ValueError) as error:
            raise DamagedFile(
                f"{path} is damaged ({error}): move {folder} away, and the file is scored from the beginning"
            ) from None
        return cls(folder, **{name: found[name] for name in NEEDS if name != "looks"}, looks=looks)

    @classmethod
    def of(
        cls,
        content: bytes,
        name: str,
        data: str,
        workers: int,
        trial: Mapping[str, int] | None = None,
        root: Path | None = None,
    ) -> "Journal":
        """Read the journal of a file's bytes, or begin one; nothing is written before seeds are drawn.

        `root` is the folder of one student's journals, whatever their files are; by default this machine's.
        """
        digest = sha256(content)
        folder = folder_of(digest, data, trial or {}, root)
        journal = cls.read(folder) or cls(folder, digest, name, data, workers, dict(trial or {}))
        journal.name = name  # the same bytes may come under another
        journal.program, journal.student = program_of(content), root is not None
        return journal

    # ------------------------------------------------------------ what is known

    @property
    def entries(self) -> list[Entry]:
        """All runs, in the order in which they are run."""
        return [entry for look in self.looks for entry in look]

    @property
    def pending(self) -> list[Entry]:
        """The runs that are still to be run to their end."""
        return [entry for entry in self.entries if not entry.over]

    def score(self) -> Score:
        """What the runs show so far."""
        mine = [entry for entry in self.entries if entry.role == SUBMISSION]
        timed = [(look, entry) for look, entries in enumerate(self.looks) for entry in entries if entry.seconds]
        beside = {(look, entry.pair): entry.seconds for look, entry in timed if entry.role == BASELINE}
        return Score(
            name=self.name,
            accuracies=tuple(entry.accuracy for entry in mine if entry.accuracy is not None),
            samples=max((entry.samples for entry in mine if entry.samples), default=None),
            looks=max(self.number, 1),
            ratios=tuple(
                entry.seconds / beside[look, entry.pair]
                for look, entry in timed
                if entry.role == SUBMISSION and (look, entry.pair) in beside
            ),
            crashes=tuple(entry.crash for entry in mine if entry.crash),
            left=sum(not entry.over for entry in mine),
            data=self.data,
            trial=bool(self.trial),
        )

    # ------------------------------------------------------------ what is noted

    def draw(self, runs: int, beside: bool) -> list[Entry]:
        """Draw the seeds of one more look, and note them before they are returned.

        With `beside`, the baseline is run with the same seeds, in turns: before the file in every second pair.
        """
        look = []
        for pair in range(runs):
            seeds = {"pair": pair, "seed": secrets.randbits(SEED_BITS), "secret": secrets.randbits(SECRET_BITS)}
            roles = [SUBMISSION, BASELINE] if beside else [SUBMISSION]
            look += [Entry(role=role, **seeds) for role in (roles if pair % 2 == 0 else reversed(roles))]
        self.drawn = self.drawn or time.time()
        self.looks.append(look)
        self.number = sum(len(each.looks) for each in [self, *self._others()])
        self.write()
        return look

    def _others(self):
        """The journals whose looks count with this one's: of the same program, or of the same student."""
        return [
            other
            for other in journals(self.folder.parent)
            if other.folder != self.folder
            and (other.data, other.trial) == (self.data, self.trial)
            and (self.student or other.program == self.program)
        ]

    def note(self, entry: Entry, **known: Any) -> None:
        """Note what is known of a run: fields of its entry."""
        for name, value in known.items():
            setattr(entry, name, value)
        self.write()

    def interrupted(self, entry: Entry) -> None:
        """Note that a run was stopped; it is run again, with its own seeds."""
        self.note(entry, run=None, interrupted=[*entry.interrupted, *filter(None, [entry.run])])

    def crashed(self, entry: Entry, why: str) -> None:
        """Note that a run crashed, which counts as chance."""
        self.note(entry, accuracy=CHANCE, crash=why)

    def write(self) -> None:
        """Write the journal whole, and see that it is on the disk."""
        known = {name: getattr(self, name) for name in NEEDS}
        known["looks"] = [[asdict(entry) for entry in look] for look in self.looks]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with files.replacing(self.folder / NAME, durable=True) as file:
                file.write((json.dumps(known, indent=1, allow_nan=False) + "\n").encode())
            _sync(self.folder)
        except OSError as error:
            raise StorageError(error, self.folder / NAME) from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let one process at a time score these bytes."""

        def busy():
            raise Busy(f"{self.name} is being scored by another process: wait for its end, or stop it")

        with files.locked(self.folder / ".lock", busy):
            if fresh := Journal.read(self.folder):  # by a process that held the lock until now
                for name in ("looks", "drawn", "workers", "number"):
                    setattr(self, name, getattr(fresh, name))
            yield


class Busy(CourseError):
    """Another process is scoring the same file."""


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
