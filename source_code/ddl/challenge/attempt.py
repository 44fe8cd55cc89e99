"""Run a submission once, or score it: all seeds, beside the baseline, with a verdict."""

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ddl
from ddl import data
from ddl.challenge.build import BASELINE as BASELINE_FILE
from ddl.challenge.build import Built, build
from ddl.challenge.journal import SECRET_BITS, SEED_BITS, SUBMISSION, Entry, Journal, sha256
from ddl.challenge.judge import Unjudged, judge, labels_of, pictures_file
from ddl.challenge.rules import FILE_BYTES, LEAST_RUNS, RUN_TIMEOUT_S, TARGET, Refused, check_workers
from ddl.challenge.standings import ratio
from ddl.challenge.verdict import Score
from ddl.errors import CourseError, InputError, OneLine
from ddl.launcher.progress import EVENT, end_of
from ddl.launcher.run import NoSuchRun, Run, RunFailed, attach, launch
from ddl.launcher.site import Site
from ddl.records.folder import RunFolder, StorageError
from ddl.records.jsonfiles import DamagedFile, read_json_lines
from ddl.records.paths import runs_dir
from ddl.words import meant, plural

__all__ = ["Attempt", "ScoreInterrupted", "builds", "pictures", "read", "run", "score", "settle", "start", "tidy"]

SCRIPT = "train_submission.py"
TRIAL = ("samples", "train_samples", "public_samples", "private_samples")
# Ends that are not a submission's doing, by the launcher's reason and by Slurm's state.
OUTSIDE = ("launch", "absent", "launcher killed", "storage")
OUTSIDE_SLURM = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "DEADLINE", "CANCELLED")
CRASH_CHARACTERS = 300


class ScoreInterrupted(OneLine, KeyboardInterrupt):
    """A score was interrupted; scoring the file again goes on."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(
            f"{journal.name}: {len(journal.pending)} of {plural(len(journal.entries), 'run')} still to come; "
            "score it again, and it goes on with the same seeds"
        )


@dataclass(frozen=True)
class Attempt:
    """One run of a file, on one seed: a look at what it would score, and no verdict.

    `ratio` is its seconds over the median of this machine's own runs of the baseline with as many workers; None without
    any.
    """

    name: str
    run: Run
    samples: int
    seconds: float
    public_accuracy: float
    ratio: float | None
    target: float
    data: str
    trial: bool

    def __repr__(self) -> str:
        gap = self.public_accuracy - self.target
        side = "above" if gap >= 0 else "below"
        where = f"{100 * abs(gap):.1f} points {side} the target of {self.target:.1%}"
        beside = f", {self.ratio:.2f} of the baseline's median" if self.ratio else ""
        lines = [
            f"{self.name}, one run: {self.public_accuracy:.1%} of the public pictures, {where}",
            f"  samples {self.samples:,}",
            f"  time    {self.seconds:.1f} s{beside}",
        ]
        if self.trial:
            lines.append("  a trial of other sizes, which says nothing of a score")
        if self.data != "cifar10":
            lines.append(f"  on {self.data} pictures, of which there is no board: `ddl data fetch cifar10`")
        return "\n".join(lines)


def run(
    path: str | Path,
    *,
    workers: int = 2,
    seed: int | None = None,
    site: Site | str | Path | None = None,
    name: str | None = None,
    oversubscribe: bool = False,
    data_set: str = "auto",
    **trial: int,
) -> Attempt:
    """Run a submission once, with a live view, and say what it reaches on the public pictures.

    Parameters
    ----------
    path
        The submission's file, or the name of one of the course's own.
    workers
        Ranks that share the global batch.
    seed
        Of everything that is drawn in this run; by default a new one.
    site
        Where to run, as for `launch`.
    name
        What figures call it; by default the file's name.
    data_set
        "cifar10", "synthetic", or "auto": CIFAR-10 where it is there.
    **trial
        ``samples``, ``train_samples``, ``public_samples``, ``private_samples``: smaller sizes, to try things out.

    Raises
    ------
    InputError, Refused
        If the file, or a value, cannot be used.
    RunFailed
        If the run fails.
    """
    check_workers(workers)
    trial = _trial(trial)
    content, file_name = read(path)
    pictures_ = pictures(data_set)
    seed = secrets.randbits(SEED_BITS) if seed is None else _seed(seed)
    secret = secrets.randbits(SECRET_BITS)
    pictures_file(pictures_, trial)  # what is wrong with the data is said before anything is built
    with _room(), tempfile.TemporaryDirectory(dir=_challenge_dir(), prefix=".run-") as folder:
        copy = Path(folder, file_name)
        copy.write_bytes(content)
        built = build(copy, [seed], Path(folder, "built"))
        found = launch(
            SCRIPT,
            workers=workers,
            site=site,
            name=name or Path(file_name).stem,
            oversubscribe=oversubscribe,
            timeout_s=RUN_TIMEOUT_S,
            **_options(built, SUBMISSION, seed, secret, pictures_, "", trial),
        )
    result = found.result
    if found.state != "done" or not result:
        raise InputError(f"{file_name}: run {found.id} is {found.state}, so there is nothing to say of it")
    return Attempt(
        name=name or file_name,
        run=found,
        samples=result["samples"],
        seconds=result["seconds"],
        public_accuracy=result.get("public_accuracy") or 0.0,
        ratio=ratio(result),
        target=TARGET,
        data=pictures_,
        trial=bool(trial),
    )


def score(
    path: str | Path,
    *,
    n: int = LEAST_RUNS,
    again: bool = False,
    beside: bool = True,
    workers: int = 2,
    site: Site | str | Path | None = None,
    oversubscribe: bool = False,
    data_set: str = "auto",
    progress: Callable[[str], object] = print,
    **trial: int,
) -> Score:
    """Score a submission: several runs with seeds that nobody knew before, each beside one of the baseline.

    The seeds are noted before the first run. Interrupted, it goes on with them when it is called again; done, it says
    what it found, and only `again` adds more runs, which join the first ones.

    Parameters
    ----------
    n
        Runs to draw seeds for, `LEAST_RUNS` or more.
    again
        Add so many runs to a score that is done.
    beside
        Run the baseline beside it, in turns, for the board of times.
    progress
        Gets a line of text before each run.
    path, workers, site, oversubscribe, data_set, **trial
        As for `run`.

    Raises
    ------
    InputError, Refused
        If the file, or a value, cannot be used.
    ScoreInterrupted
        If it is interrupted.
    """
    check_workers(workers)
    trial = _trial(trial)
    if type(n) is not int or n < (1 if trial else LEAST_RUNS):
        raise InputError(f"n={n!r}: a score takes at least {LEAST_RUNS} runs")
    content, name = read(path)
    journal = Journal.of(content, name, pictures(data_set), workers, trial)
    pictures_file(journal.data, trial)  # what is wrong with the data is said before seeds are drawn
    with _room(), journal.alone():
        if journal.looks and journal.workers != workers:
            raise InputError(
                f"{name} has been scored with workers={journal.workers}: all its runs take as many, so that they "
                "can be put together"
            )
        if not journal.looks or (again and not journal.pending):
            journal.draw(n, beside)
        elif journal.pending:
            progress(f"{name}: going on with {len(journal.pending)} of {plural(len(journal.entries), 'run')}")
        try:
            _play(journal, content, site, oversubscribe, progress)
        except KeyboardInterrupt:
            raise ScoreInterrupted(journal) from None
    return journal.score()


def _play(journal, content, site, oversubscribe, progress):
    """Run what is still to be run, in its order."""
    if not journal.pending:
        return
    built = {
        role: builds(journal, role, content if role == SUBMISSION else BASELINE_FILE.read_bytes())
        for role in dict.fromkeys(entry.role for entry in journal.pending)
    }
    labels = labels_of(journal.data, journal.trial.get("private_samples"))
    order = journal.entries
    while pending := journal.pending:
        entry = pending[0]
        called = journal.name if entry.role == SUBMISSION else "the baseline"
        progress(f"run {order.index(entry) + 1} of {len(order)}: {called}, seeds {entry.pair + 1}")
        earlier = _under_way(entry)
        found = earlier or start(journal, entry, built[entry.role], site=site, oversubscribe=oversubscribe)
        try:
            found.wait()
        except KeyboardInterrupt:
            journal.interrupted(entry)
            raise
        try:
            over = settle(journal, entry, found, labels, built[entry.role].file)
        except CourseError:
            if not earlier:
                raise
        else:
            if not over and not earlier:
                raise ScoreInterrupted(journal)
    tidy(journal)


def tidy(journal: Journal) -> None:
    """Remove what was built for runs that are over."""
    for folder in journal.folder.glob("built-*"):
        shutil.rmtree(folder, ignore_errors=True)


def builds(journal: Journal, role: str, content: bytes, start: Callable | None = None) -> Built:
    """Build a file for all seeds that its runs still need, or return what an earlier call has built for them."""
    seeds = list(dict.fromkeys(entry.seed for entry in journal.pending if entry.role == role))
    # What a file leaves out is the baseline's, and another version of the course may build otherwise.
    made_of = (content, BASELINE_FILE.read_bytes(), ddl.__version__.encode(), repr(sorted(seeds)).encode())
    name = sha256(b"\0".join(made_of))[:16]
    folder = journal.folder / f"built-{role}-{name}"
    if not folder.exists():
        new = journal.folder / f".new-{role}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        file_name = journal.name if role == SUBMISSION else BASELINE_FILE.name
        copy = new / file_name
        copy.write_bytes(content)
        build(copy, seeds, new / "built", **({"start": start} if start else {}))
        (new / "built").rename(folder)
        shutil.rmtree(new, ignore_errors=True)
    return Built.at(folder)


def start(journal: Journal, entry: Entry, built: Built, *, name: str | None = None, **options: Any) -> Run:
    """Start a run of a score, and note it; `name` is what tables call it, and `options` are those of `launch`."""
    look = next(number for number, look in enumerate(journal.looks) if entry in look)
    found = launch(
        SCRIPT,
        workers=journal.workers,
        name=name or (Path(journal.name).stem if entry.role == SUBMISSION else "baseline"),
        timeout_s=RUN_TIMEOUT_S,
        wait=False,
        check=False,
        **options,
        **_options(
            built, entry.role, entry.seed, entry.secret, journal.data, f"{journal.file[:16]}-{look + 1}", journal.trial
        ),
    )
    journal.started(entry, found.id)
    return found


def settle(journal: Journal, entry: Entry, found: Run, labels: np.ndarray, file: str) -> bool:
    """Note how a run of a score ended; return False where it was stopped, and is to be run again with its own seeds.

    `file` is the SHA-256 of what it ran. A run that the machine could not carry out raises CourseError, and is to be
    run again too.
    """
    state = found.state
    if state == "done":
        try:
            expected = {"world": journal.workers, "seed": entry.seed, "file": file, "trial": bool(journal.trial)}
            reached, result = judge(found.folder, labels, expected)
        except Unjudged as error:
            journal.crashed(entry, str(error))
        else:
            journal.ended(entry, reached, result)
        return True
    if state == "failed" and not _from_outside(found):
        failure = RunFailed(found)
        journal.crashed(entry, " ".join(str(failure).split())[:CRASH_CHARACTERS])
        return True
    journal.interrupted(entry)
    if state == "failed":
        raise CourseError(f"{RunFailed(found)}\nThat is not the file's doing: score it again, and it goes on")
    return False


def _from_outside(found):
    """Whether the machine, or the site, ended a run."""
    try:
        end = end_of(read_json_lines(RunFolder(found.folder).launcher, EVENT)) or {}
    except DamagedFile:
        return True
    return end.get("reason") in OUTSIDE or end.get("slurm") in OUTSIDE_SLURM


def _under_way(entry):
    """The run that an interrupted score had started; None where it left none."""
    if not entry.run:
        return None
    try:
        return attach(entry.run)
    except NoSuchRun:
        return None


def read(path: str | Path) -> tuple[bytes, str]:
    """Return a submission's bytes and its file's name.

    Raises
    ------
    InputError
        If there is no such file, it is a folder, or cannot be read.
    Refused
        If it is larger than `FILE_BYTES`.
    """
    there = Path(path).expanduser()
    own = BASELINE_FILE.parent / there.name
    if not there.exists() and there.name == str(path) and own.is_file():
        there = own
    if there.is_dir():
        inside = ", ".join(sorted(file.name for file in there.glob("*.py"))[:5]) or "none"
        raise InputError(f"{path} is a folder: a submission is one Python file (in it are: {inside})")
    try:
        with there.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except FileNotFoundError:
        known = ", ".join(sorted(file.name for file in BASELINE_FILE.parent.glob("*.py"))) or "none"
        raise InputError(f"there is no file {path}; the course's own submissions are: {known}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES:
        raise Refused(f"{path} is larger than the {FILE_BYTES:,} bytes that a submission may have")
    return content, there.name


def pictures(data_set: str) -> str:
    """The name of the pictures to use: for "auto" CIFAR-10 where it is there, else generated ones."""
    if data_set not in ("auto", "cifar10", "synthetic"):
        raise InputError(f"data_set={data_set!r} is not one of: auto, cifar10, synthetic")
    if data_set != "auto":
        return data_set
    return "cifar10" if data.is_there("cifar10") else "synthetic"


def _options(built, role, seed, secret, pictures_, score_id, trial):
    """The script's options, as `launch` takes them."""
    return {
        "built": built.folder,
        "role": role,
        "seed": seed,
        "secret": secret,
        "pictures": pictures_file(pictures_, trial),
        "score_id": score_id or None,
        **trial,
    }


def _trial(trial):
    """The options that cut sizes, without those that are None."""
    unknown = sorted(set(trial) - set(TRIAL))
    if unknown:
        sizes = f"; the sizes that can be cut are {', '.join(TRIAL)}"
        raise InputError(f"there is no option {unknown[0]!r}{meant(unknown[0], TRIAL) or sizes}")
    for key, value in trial.items():
        if value is not None and (type(value) is not int or value < 1):
            raise InputError(f"{key}={value!r}: a whole number of at least 1 is needed")
    return {key: value for key, value in trial.items() if value is not None}


def _seed(seed):
    if type(seed) is not int or not 0 <= seed < 2**SEED_BITS:
        raise InputError(f"seed={seed!r}: a whole number from 0 to {2**SEED_BITS - 1:,} is needed")
    return seed


@contextmanager
def _room() -> Iterator[None]:
    """Say what to do where the folder of runs is full, or cannot be written."""
    try:
        yield
    except CourseError:
        raise
    except OSError as error:
        raise StorageError(error, error.filename or runs_dir()) from error


def _challenge_dir():
    folder = runs_dir() / "challenge"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
