"""Data sets by name: load, fetch, add and list them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from course.data import cifar10, quora, svhn, synthetic
from course.data.dataset import HELD_OUT, VALIDATION_SAMPLES, DataError, DataSet, balanced_subset
from course.data.download import download, sha256
from ddl import plugins
from ddl.records.files import locked
from ddl.records.paths import data_dir

REAL = {module.REAL.name: module.REAL for module in (cifar10, svhn)}
NAMES = ("cifar10", "synthetic", "svhn")
TEXTS = ("quora", "questions")


def load(
    name: str,
    *,
    train_samples: int | None = None,
    test_samples: int | None = None,
    held_out: str = "test",
    seed: int = 0,
    prefer: str = "cifar10",
) -> DataSet:
    """Return an image data set, or a class-balanced subset of one.

    Nothing is downloaded. Raises DataError if the data set is missing, damaged or too small.

    Parameters
    ----------
    name
        ``"cifar10"``, ``"svhn"``, ``"synthetic"``, or ``"auto"``: `prefer` if it is installed, otherwise the generated
        one, with the reason in the result's `note`.
    train_samples, test_samples
        All by default. A smaller subset is the beginning of a larger one.
    held_out
        ``"validation"`` replaces the test split with the last `VALIDATION_SAMPLES` of the training split, so that you
        can choose settings without the test images.
    seed
        Chooses the subset of a real data set, or the generated images. Use the same one in all runs that you compare;
        it is not the run's seed.
    """
    if held_out not in HELD_OUT:
        raise DataError(f"held_out must be one of {', '.join(HELD_OUT)}, got {held_out!r}.")
    folder, note = data_dir(), None
    if name == "auto":
        name = prefer if is_there(prefer) else "synthetic"
        if name == "synthetic":
            note = f"{REAL[prefer].title} is not in {folder}, so generated images are used."
    _known(name)
    if name == "synthetic":
        return replace(synthetic.read(folder, train_samples, test_samples, seed, held_out), note=note)
    data = REAL[name].read(folder)
    if held_out == "validation":
        data = _validating(data, seed)
    for split, samples in (("train", train_samples), ("test", test_samples)):
        images, labels = getattr(data, f"{split}_images"), getattr(data, f"{split}_labels")
        if samples is None:
            continue
        if not 0 < samples <= len(labels):
            called = held_out if split == "test" else split
            raise DataError(f"{name} has {len(labels)} {called} samples: {samples} is not possible.")
        if samples < len(labels):
            # With a validation split, the rest is already in this order.
            chosen = slice(samples) if held_out == "validation" else balanced_subset(labels, samples, seed)
            data = replace(data, **{f"{split}_images": images[chosen], f"{split}_labels": labels[chosen]})
    return data


def _validating(data, seed):
    """Return the data set with the end of its training split as its test split."""
    order = balanced_subset(data.train_labels, data.train_samples, seed)
    train, validation = order[:-VALIDATION_SAMPLES], order[-VALIDATION_SAMPLES:]
    return replace(
        data,
        held_out="validation",
        test_images=data.train_images[validation],
        test_labels=data.train_labels[validation],
        train_images=data.train_images[train],
        train_labels=data.train_labels[train],
    )


def load_questions(name: str = "auto", *, samples: int | None = None) -> quora.Questions:
    """Return questions to classify, or a subset with the same share of each class.

    `name` is ``"quora"`` (real), ``"questions"`` (generated) or ``"auto"`` (the real ones if installed). `samples`
    defaults to all real questions, or 20,000 generated ones; a number always gives the same questions. Raises DataError
    if the real questions are missing or too few.
    """
    folder, note = data_dir(), None
    if name == "auto":
        name = "quora" if is_there("quora") else "questions"
        if name == "questions":
            note = f"Quora's questions are not in {folder}, so generated questions are used."
    if name not in TEXTS:
        raise DataError(f"There are no questions {name!r}; there are: {', '.join(TEXTS)}.")
    if name == "quora":
        return quora.read(folder, samples)
    return replace(quora.generate(samples or quora.SAMPLES), note=note)


def is_there(name: str) -> bool:
    """Return whether `load` or `load_questions` would find a data set, without opening it."""
    folder = data_dir()
    if name == "quora":
        return quora.count(folder) > 0
    _known(name)
    if name in REAL:
        return bool(REAL[name].sources(folder))
    return synthetic.cached(folder) is not None


def add(name: str, path: str | Path, progress: Callable[[str], object] | None = None) -> None:
    """Add a data set that needs a manual download: Quora's questions, from ``train.csv`` or a zip archive with it.

    `progress` is called with a line of text and defaults to print. Raises DataError if the file is something else.
    """
    if name != "quora":
        raise DataError(f"Only quora can be added; fetch {name!r} instead.")
    questions = quora.read_csv(Path(path).expanduser())
    with _usable(data_dir()) as folder:
        quora.keep(folder, questions)
    (progress or print)(
        f"quora: {len(questions):,} questions, {questions.targets.mean():.1%} of them insincere, in {folder}"
    )


def fetch(name: str, progress: Callable[[str], object] | None = None) -> None:
    """Download a real data set, or generate the synthetic one, unless it is already there.

    One process downloads while others wait. A damaged archive is replaced and an interrupted download resumes.
    `progress` is called with lines of text and defaults to print. ``DDL_CIFAR10_URL`` and ``DDL_SVHN_URL`` may
    name a mirror (see `RealSet.archives`). Raises DataError if it fails.
    """
    _known(name)
    say = progress or (lambda line: print(line, flush=True))
    waiting = f"{name}: waiting for another process that is fetching it"
    with _usable(data_dir()) as folder, locked(folder / f"{name}.lock", lambda: say(waiting)):
        if name in REAL:
            _fetch_real(name, folder, say)
        else:
            _fetch_synthetic(folder, say)


@contextmanager
def _usable(folder: Path) -> Iterator[Path]:
    """Raise a DataError with advice if the data folder cannot be used."""
    try:
        yield folder
    except OSError as problem:
        raise DataError(f"{folder} cannot be used: {problem}. Set DDL_DATA_DIR to a writable folder.") from problem


def _fetch_real(name, folder, say):
    real = REAL[name]
    try:
        data = real.read(folder)
    except DataError as problem:
        if real.sources(folder):
            say(f"{name}: {problem}")
        for archive in real.archives():
            path = folder / archive.file
            if not path.exists() or sha256(path) != archive.sha256:
                say(f"{name}: downloading {archive.address} to {folder}")
                download(archive, folder, say)
        data = real.read(folder)
    say(f"{name}: {data.train_samples} + {data.test_samples} images, {data.form}, in {folder}")


def _fetch_synthetic(folder, say):
    train, test = synthetic.WHOLE.values()
    if synthetic.cached(folder) is None:
        say(f"synthetic: generating {train + test} images in {folder}")
        synthetic.make(folder)
    say(f"synthetic: {train} + {test} images in {folder}")


@dataclass(frozen=True)
class Entry:
    """A line of `listing`: a data set and its state on this machine.

    `form` is as in `DataSet`, or the problem; `samples` and `size_bytes` are 0 if the data set is missing. The size
    includes the mapped copy.
    """

    name: str
    form: str
    path: Path
    samples: int = 0
    size_bytes: int = 0
    unit: str = "images"
    problem: DataError | None = None

    @property
    def is_here(self) -> bool:
        return self.samples > 0

    def __str__(self) -> str:
        if not self.is_here:
            return f"{self.name:10} not here: {self.form}"
        return f"{self.name:10} {self.samples} {self.unit}, {self.form}, {self.size_bytes / 2**20:.0f} MiB, {self.path}"


def listing() -> list[Entry]:
    """Return an `Entry` for each data set: CIFAR-10, synthetic, SVHN, Quora's questions."""
    entries, folder = [], data_dir()
    for name in (*NAMES, "quora"):
        try:
            form, samples, files = _found(name, folder)
        except DataError as problem:
            entries.append(Entry(name, str(problem), folder, problem=problem))
        else:
            unit = "questions" if name == "quora" else "images"
            entries.append(Entry(name, form, files[0], samples, _bytes(files), unit))
    return entries


def _found(name, folder):
    """Return a data set's form, number of samples and files. Raises DataError if it is missing."""
    if name in REAL:
        data, real = REAL[name].read(folder), REAL[name]
        return data.form, data.train_samples + data.test_samples, [*real.sources(folder), real.mapped(folder)]
    if name == "synthetic":
        if not is_there(name):
            raise DataError("generated on first use")
        return "generated", sum(synthetic.WHOLE.values()), [synthetic.path(folder)]
    samples = quora.count(folder)
    if not samples:
        raise DataError("needs a login: download train.csv, then run `ddl data add quora train.csv`")
    return "official layout", samples, [quora.mapped(folder)]


def _bytes(paths):
    files = [file for path in paths for file in (path.iterdir() if path.is_dir() else [path])]
    return sum(file.stat().st_size for file in files if file.exists())


def _known(name):
    if name not in NAMES:
        if gone := plugins.removed(name):
            raise DataError(gone)
        hint = " Load questions with `load_questions`." if name in TEXTS else ""
        raise DataError(f"There is no data set {name!r}; there are: {', '.join(NAMES)}.{hint}")
