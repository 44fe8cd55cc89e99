"""Run a submission once, and what a run of it and a score have in common."""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from course import data
from course.challenge.build import BASELINE as BASELINE_FILE
from course.challenge.build import build, read_file
from course.challenge.journal import SECRET_BITS, SEED_BITS, SUBMISSION
from course.challenge.judge import pictures_file
from course.challenge.rules import AROUND_S, BASELINE_TIMES, RUN_TIMEOUT_S, TARGET, check_workers
from course.challenge.standings import baseline_seconds, ratio
from ddl.errors import CourseError, InputError
from ddl.launcher.launch import launch
from ddl.launcher.run import Run
from ddl.launcher.site import Site
from ddl.records.folder import StorageError
from ddl.records.paths import runs_dir
from ddl.words import did_you_mean

SCRIPT = "train_submission.py"
TRIAL = ("samples", "train_samples", "public_samples", "private_samples")


@dataclass(frozen=True)
class Attempt:
    """One run of a file, on one seed: an impression of its score, which decides nothing.

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
            f"{self.name}, one run: {self.public_accuracy:.1%} of the public images, {where}",
            f"  samples {self.samples:,}",
            f"  time    {self.seconds:.1f} s{beside}",
        ]
        if self.trial:
            lines.append("  a trial with other sizes, which says nothing about a score")
        if self.data != "cifar10":
            lines.append(f"  on {self.data} images, which have no board: `ddl data fetch cifar10`")
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

    `path` is the submission's file, or the name of one of the course's own. Of everything that is drawn the seed is
    `seed`, by default a new one; figures call the run `name`, by default the file's. `data_set` is "cifar10",
    "synthetic", or "auto": CIFAR-10 where it is there. `trial` are smaller sizes, to try things out: `TRIAL` lists
    them. InputError or Refused where the file, or a value, cannot be used; RunFailed where the run fails.
    """
    check_workers(workers)
    trial = trial_of(trial)
    content, file_name = read(path)
    pictures_ = pictures(data_set)
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    if type(seed) is not int or not 0 <= seed < 2**SEED_BITS:
        raise InputError(f"seed={seed!r}: a whole number from 0 to {2**SEED_BITS - 1:,} is needed")
    pictures_file(pictures_, trial)  # what is wrong with the data is said before anything is built
    with room(), tempfile.TemporaryDirectory(dir=_challenge_dir(), prefix=".run-") as folder:
        copy = Path(folder, file_name)
        copy.write_bytes(content)
        built = build(copy, [seed], Path(folder, "built"))
        options = options_of(built, SUBMISSION, seed, secrets.randbits(SECRET_BITS), pictures_, None, trial)
        limits = {"name": name or Path(file_name).stem, "timeout_s": limit_s(workers, pictures_)}
        found = launch(SCRIPT, workers=workers, site=site, oversubscribe=oversubscribe, **limits, **options)
    if found.state != "done" or not (result := found.result):
        raise InputError(f"{file_name}: run {found.id} is {found.state}, so it has no result")
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


def limit_s(workers: int, data_name: str) -> float:
    """How many seconds a run may take: relative to the baseline's on this machine, as far as that is known."""
    seconds = baseline_seconds(workers, data_name)
    return RUN_TIMEOUT_S if seconds is None else AROUND_S + BASELINE_TIMES * seconds


def read(path: str | Path) -> tuple[bytes, str]:
    """Return a submission's bytes and its file's name; InputError or Refused where it is no usable file."""
    file = Path(path).expanduser()
    courses = {each.name: each for each in sorted(BASELINE_FILE.parent.glob("*.py"))}
    if not file.exists():
        file = courses.get(str(path), file)
    if file.is_dir():
        inside = ", ".join(sorted(each.name for each in file.glob("*.py"))[:5]) or "none"
        raise InputError(f"{path} is a folder: a submission is one Python file (in it are: {inside})")
    if not file.exists():
        raise InputError(f"there is no file {path}; the course's own submissions are: {', '.join(courses)}")
    return read_file(file), file.name


def pictures(data_set: str) -> str:
    """The name of the pictures to use: for "auto" CIFAR-10 where it is there, else generated ones."""
    if data_set not in ("auto", "cifar10", "synthetic"):
        raise InputError(f"data_set={data_set!r} is not one of: auto, cifar10, synthetic")
    if data_set != "auto":
        return data_set
    return "cifar10" if data.is_there("cifar10") else "synthetic"


def options_of(built, role, seed, secret, pictures_, score_id, trial):
    """The script's options, as `launch` takes them."""
    return {
        "built": built.folder,
        "role": role,
        "seed": seed,
        "secret": secret,
        "pictures": pictures_file(pictures_, trial),
        "score_id": score_id,
        **trial,
    }


def trial_of(trial):
    """The options that cut sizes, without those that are None."""
    for key, value in trial.items():
        if key not in TRIAL:
            known = f"; the sizes that can be cut are {', '.join(TRIAL)}"
            raise InputError(f"there is no option {key!r}{did_you_mean(key, TRIAL) or known}")
        if value is not None and (type(value) is not int or value < 1):
            raise InputError(f"{key}={value!r}: a whole number of at least 1 is needed")
    return {key: value for key, value in trial.items() if value is not None}


@contextmanager
def room() -> Iterator[None]:
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
