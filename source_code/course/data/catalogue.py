"""The data sets by name: load one, fetch or add one, list them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from course.data import cifar10, fashion_mnist, quora, svhn, synthetic
from course.data.dataset import HELD_OUT, VALIDATION_SAMPLES, DataError, DataSet, balanced_subset
from course.data.download import download, sha256
from ddl.records.files import locked
from ddl.records.paths import data_dir

REAL = {module.REAL.name: module.REAL for module in (cifar10, svhn, fashion_mnist)}
NAMES = ("cifar10", "synthetic", "svhn", "fashion_mnist")
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
    """Return a data set of pictures, or a class-balanced part of one.

    Nothing is downloaded: DataError where the data set is missing or damaged, or has fewer samples.

    Parameters
    ----------
    name
        ``"cifar10"``, ``"svhn"``, ``"fashion_mnist"``, ``"synthetic"``, or ``"auto"``: the one to `prefer` where it is
        there, else the generated one, with the reason in the result's `note`.
    train_samples, test_samples
        By default all; a smaller part is the beginning of a larger one.
    held_out
        ``"validation"`` sets the last `VALIDATION_SAMPLES` of the training part aside, and puts them into the place of
        the test part: to choose settings on, and look at the test pictures once.
    seed
        Chooses the part of a real data set, or the generated pictures. Keep it the same for runs that are compared: it
        is not the seed of a run.
    """
    if held_out not in HELD_OUT:
        raise DataError(f"held_out={held_out!r}: it is one of {', '.join(HELD_OUT)}.")
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
    for part, samples in (("train", train_samples), ("test", test_samples)):
        images, labels = getattr(data, f"{part}_images"), getattr(data, f"{part}_labels")
        if samples is None:
            continue
        if not 0 < samples <= len(labels):
            called = held_out if part == "test" else part
            raise DataError(f"{name} has {len(labels)} {called} samples: {samples} is not possible.")
        if samples < len(labels):
            # What is set aside for validation has put the rest in this order already.
            chosen = slice(samples) if held_out == "validation" else balanced_subset(labels, samples, seed)
            data = replace(data, **{f"{part}_images": images[chosen], f"{part}_labels": labels[chosen]})
    return data


def _validating(data, seed):
    """Return a data set whose test part is the end of its training part."""
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


def load_questions(name: str = "auto", *, samples: int | None = None, seed: int = 0) -> quora.Questions:
    """Return questions to classify, or a part of them with the same share of each class.

    `name` is ``"quora"``, the real ones; ``"questions"``, generated ones; or ``"auto"``, the real ones where they are
    there. `samples` are by default all real ones, or 20,000 generated ones. `seed` chooses the part, or the generated
    questions: keep it the same for runs that are compared. DataError where the real ones are missing, or fewer.
    """
    folder, note = data_dir(), None
    if name == "auto":
        name = "quora" if is_there("quora") else "questions"
        if name == "questions":
            note = f"Quora's questions are not in {folder}, so generated questions are used."
    if name not in TEXTS:
        raise DataError(f"There are no questions {name!r}; there are: {', '.join(TEXTS)}.")
    if name == "quora":
        return quora.read(folder, samples, seed)
    return replace(quora.generate(samples or quora.SAMPLES, seed), note=note)


def is_there(name: str) -> bool:
    """Whether `load` or `load_questions` would find a data set; a real one is not opened."""
    folder = data_dir()
    if name == "quora":
        return quora.count(folder) > 0
    _known(name)
    if name in REAL:
        return bool(REAL[name].sources(folder))
    return synthetic.cached(folder) is not None


def add(name: str, path: str | Path, progress: Callable[[str], object] | None = None) -> None:
    """Keep a data set that can only be had by hand: Quora's questions, from ``train.csv`` or a zip archive with it.

    `progress` gets a line of text; by default it is printed. DataError says where and why it is not that file.
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
    """Download a real data set, or generate the synthetic one, unless it is there.

    One process does it; others wait for it. A damaged archive is replaced, a broken download continued. `progress` gets
    lines of text; by default they are printed. ``DDL_CIFAR10_URL``, ``DDL_SVHN_URL`` and ``DDL_FASHION_MNIST_URL`` may
    name a mirror (see `RealSet.archives`). DataError says why it cannot be done, and what can.
    """
    _known(name)
    say = progress or (lambda line: print(line, flush=True))
    waiting = f"{name}: another process fetches it; waiting"
    with _usable(data_dir()) as folder, locked(folder / f"{name}.lock", lambda: say(waiting)):
        if name in REAL:
            _fetch_real(name, folder, say)
        else:
            _fetch_synthetic(folder, say)


@contextmanager
def _usable(folder: Path) -> Iterator[Path]:
    """Say what to do where the folder cannot be used."""
    try:
        yield folder
    except OSError as problem:
        raise DataError(
            f"{folder} cannot be used: {problem}. Set DDL_DATA_DIR to a folder that you can write."
        ) from problem


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
    """One line of `listing`: a data set and its state on this machine.

    `form` is as in `DataSet`, or what is wrong; `samples` and `size_bytes` are 0 where it is not there. The size
    includes the mapped copy.
    """

    name: str
    form: str
    path: Path
    samples: int = 0
    size_bytes: int = 0
    unit: str = "images"

    @property
    def is_here(self) -> bool:
        return self.samples > 0

    def __str__(self) -> str:
        if not self.is_here:
            return f"{self.name:10} not here: {self.form}"
        return f"{self.name:10} {self.samples} {self.unit}, {self.form}, {self.size_bytes / 2**20:.0f} MiB, {self.path}"


def listing() -> list[Entry]:
    """Return an `Entry` for each data set: CIFAR-10, synthetic, SVHN, Fashion-MNIST, Quora's questions."""
    entries, folder = [], data_dir()
    for name in (*NAMES, "quora"):
        try:
            form, samples, files = _found(name, folder)
        except DataError as problem:
            entries.append(Entry(name, str(problem), folder))
        else:
            unit = "questions" if name == "quora" else "images"
            entries.append(Entry(name, form, files[0], samples, _bytes(files), unit))
    return entries


def _found(name, folder):
    """Return a data set's form, how many samples it has, and its files; DataError says why there are none."""
    if name in REAL:
        data, real = REAL[name].read(folder), REAL[name]
        return data.form, data.train_samples + data.test_samples, [*real.sources(folder), real.mapped(folder)]
    if name == "synthetic":
        if not is_there(name):
            raise DataError("it is generated when first used")
        return "generated", sum(synthetic.WHOLE.values()), [synthetic.path(folder)]
    samples = quora.count(folder)
    if not samples:
        raise DataError("its owner asks for a login: download train.csv, then run `ddl data add quora train.csv`")
    return "official layout", samples, [quora.mapped(folder)]


def _bytes(paths):
    files = [file for path in paths for file in (path.iterdir() if path.is_dir() else [path])]
    return sum(file.stat().st_size for file in files if file.exists())


def _known(name):
    if name not in NAMES:
        hint = " Questions are loaded by `load_questions`." if name in TEXTS else ""
        raise DataError(f"There is no data set {name!r}; there are: {', '.join(NAMES)}.{hint}")
