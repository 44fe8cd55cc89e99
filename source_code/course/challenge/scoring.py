"""Score a submission: all seeds, beside the baseline, with a verdict."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ddl
from course.challenge.attempt import SCRIPT, limit_s, options_of, pictures, read, room, trial_of
from course.challenge.build import BASELINE as BASELINE_FILE
from course.challenge.build import Built, build
from course.challenge.journal import SUBMISSION, Entry, Journal, sha256
from course.challenge.judge import Unjudged, judge, labels_of, pictures_file
from course.challenge.rules import LEAST_RUNS, check_workers
from course.challenge.verdict import Score
from ddl.errors import CourseError, InputError, OneLine
from ddl.launcher.launch import launch
from ddl.launcher.progress import EVENT, end_of
from ddl.launcher.run import NoSuchRun, Run, RunFailed, attach
from ddl.launcher.site import Site
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import DamagedFile, read_json_lines
from ddl.words import plural

# Ends that are not a submission's doing, by the launcher's reason and by Slurm's state.
OUTSIDE = ("launch", "absent", "launcher killed", "storage")
OUTSIDE_SLURM = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "DEADLINE", "CANCELLED")
CRASH_CHARACTERS = 300


class ScoreInterrupted(OneLine, KeyboardInterrupt):
    """A score was interrupted; scoring the file again goes on."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(
            f"{journal.name}: {len(journal.pending)} of {plural(len(journal.entries), 'run')} still to come; "
            "score it again to go on with the same seeds"
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

    The seeds of `n` runs, `LEAST_RUNS` or more, are noted before the first run. Interrupted (ScoreInterrupted), it goes
    on with them when it is called again; done, it says what it found, and only `again` adds `n` more runs, which join
    the first ones. With `beside` the baseline is run in turns with it, for the board of times. `progress` gets a line
    of text before each run. All else is as for `run`, whose errors it raises.
    """
    check_workers(workers)
    trial = trial_of(trial)
    if type(n) is not int or n < (1 if trial else LEAST_RUNS):
        raise InputError(f"n={n!r}: a score takes at least {LEAST_RUNS} runs")
    content, name = read(path)
    journal = Journal.of(content, name, pictures(data_set), workers, trial)
    pictures_file(journal.data, trial)  # what is wrong with the data is said before seeds are drawn
    with room(), journal.alone():
        if journal.looks and journal.workers != workers:
            raise InputError(
                f"{name} has been scored with workers={journal.workers}: all its runs use as many, so that they "
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
            if not settle(journal, entry, found, labels, built[entry.role].file) and not earlier:
                raise ScoreInterrupted(journal)
        except CourseError:
            if not earlier:
                raise
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
        timeout_s=limit_s(journal.workers, journal.data),
        wait=False,
        check=False,
        **options,
        **options_of(
            built, entry.role, entry.seed, entry.secret, journal.data, f"{journal.file[:16]}-{look + 1}", journal.trial
        ),
    )
    journal.note(entry, run=found.id)
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
            public = result.get("public_accuracy")
            public = public if isinstance(public, float) and math.isfinite(public) else None
            samples, seconds = result["samples"], result["seconds"]
            journal.note(entry, accuracy=reached, samples=samples, seconds=seconds, public_accuracy=public)
        return True
    end = _end(found)
    if state == "failed" and not (end.get("reason") in OUTSIDE or end.get("slurm") in OUTSIDE_SLURM):
        why = " ".join(str(RunFailed(found)).split())[:CRASH_CHARACTERS]
        journal.crashed(entry, why)
        if end.get("reason") == "timeout":  # it would not end with other seeds either
            for other in journal.pending:
                if other.role == entry.role:
                    journal.crashed(other, why)
        return True
    journal.interrupted(entry)
    if state == "failed":
        raise CourseError(f"{RunFailed(found)}\nThat is not the file's fault: score it again to go on")
    return False


def _end(found):
    """Return what the launcher noted of a run's end; a damaged note is the disk's doing."""
    try:
        return end_of(read_json_lines(RunFolder(found.folder).launcher, EVENT)) or {}
    except DamagedFile:
        return {"reason": "storage"}


def _under_way(entry):
    """The run that an interrupted score had started; None where it left none."""
    if not entry.run:
        return None
    try:
        return attach(entry.run)
    except NoSuchRun:
        return None
