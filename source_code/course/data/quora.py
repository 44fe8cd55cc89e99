"""Questions in the format of Quora's insincere-questions file, real or generated.

The real file is a CSV with the columns ``qid``, ``question_text`` and ``target``, where 1 marks a question that is a
statement in disguise: about 6 % of 1.3 million. It needs a login, so users add it by hand. The generated questions have
the same form and the same imbalance: harmless sentences about invented places and products, some of which blame a group
of people. Tone and label mostly agree, so no classifier is perfect; there are so many names that a network can memorize
its training questions.
"""

import csv
import io
import random
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import TextIO

import numpy as np

from course.data import store
from course.data.dataset import DataError
from ddl.records.files import locked

COLUMNS = ("qid", "question_text", "target")
FORMAT = 1  # of the stored file; increase it with every change
SAMPLES = 20_000  # default number of generated questions
MOST = 500_000

# For generated questions. With these, no classifier reaches an F1 above 0.75.
POSITIVE = 0.062  # the share of target 1, as in the real file
# By target: how often both halves of a question are loaded, or only the first.
LOADED = {1: (0.4, 0.4), 0: (0.003, 0.02)}


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions and their targets; DataError if one of the two targets is missing."""

    name: str  # "quora", or "questions" for generated ones
    form: str  # "official layout" or "generated"
    texts: np.ndarray  # str objects, shape [samples]
    targets: np.ndarray  # int32, shape [samples]: 1 for an insincere question, else 0
    note: str | None = None  # why these were chosen, where that is not obvious

    def __post_init__(self):
        if set(self.targets.tolist()) != {0, 1}:
            raise DataError(
                f"{self.name}: targets are {sorted(set(self.targets.tolist()))}, not 0 and 1. Too small a subset "
                "may have no question of target 1: use more samples."
            )

    def __len__(self) -> int:
        return len(self.targets)

    def at(self, positions: np.ndarray) -> "Questions":
        """Return the questions at these positions."""
        return replace(self, texts=self.texts[positions], targets=self.targets[positions])

    def splits(self, validation: float = 0.1, test: float = 0.1, seed: int = 0) -> "Splits":
        """Split the questions at these shares, the rest for training; each target has the same share in all three.

        Keep `seed` the same for runs that are compared: it is not the seed of a run.
        """
        held_out = [round(share * len(self)) for share in (test, validation)]
        if min(held_out) < 1 or sum(held_out) >= len(self):
            raise DataError(
                f"{self.name}: {len(self)} questions cannot be split in three "
                f"with shares {validation} and {test} for validation and test."
            )
        testing, validating, training = np.split(stratified(self.targets, seed), np.cumsum(held_out))
        return Splits(self.at(training), self.at(validating), self.at(testing))


@dataclass(frozen=True, eq=False)
class Splits:
    """Questions for training, validation (when to stop, which threshold) and test."""

    train: Questions
    validation: Questions
    test: Questions

    def describe(self) -> dict:
        """Return the record of these data that goes into ``result.json``."""
        return {
            "name": self.train.name,
            "form": self.train.form,
            "unit": "questions",
            "train_samples": len(self.train),
            "validation_samples": len(self.validation),
            "test_samples": len(self.test),
            "positive_share": float(self.train.targets.mean()),
        }


def stratified(targets: np.ndarray, seed: int) -> np.ndarray:
    """Return all positions, int64, in an order in which every stretch has the overall share of each target.

    A stretch of length k has between k s - 2 and k s + 2 questions of a target with share s.
    """
    shuffled = np.random.default_rng(seed).permutation(len(targets))
    place = np.empty(len(targets))
    for target in np.unique(targets):
        mine = np.flatnonzero(targets[shuffled] == target)
        place[mine] = (np.arange(len(mine)) + 0.5) / len(mine)
    return shuffled[np.argsort(place, kind="stable")]


# ---------------------------------------------------------------- the real questions


def mapped(folder: Path) -> Path:
    """Return the path of the added questions."""
    return folder / "quora.npy"


def _kept(folder: Path) -> store.Arrays | None:
    return store.read(mapped(folder), version=FORMAT)


def read(folder: Path, samples: int | None = None) -> Questions:
    """Return the added questions, or a subset with the same share of each target.

    Raises DataError if none were added, or fewer than `samples`.
    """
    kept = _kept(folder)
    if kept is None:
        raise DataError(
            f"Quora's questions are not in {folder}. Download train.csv of the competition "
            "'Quora Insincere Questions Classification' from Kaggle, which needs a login, and "
            "run `ddl data add quora train.csv`; or use the generated `questions`."
        )
    targets = np.array(kept["targets"])
    chosen = np.arange(len(targets))
    if samples is not None:
        if not 0 < samples <= len(targets):
            raise DataError(f"quora has {len(targets)} questions: {samples} is not possible.")
        chosen = stratified(targets, seed=0)[:samples]
    ends, blob = np.concatenate([[0], kept["ends"]]), kept["blob"]
    texts = np.array([bytes(blob[ends[k] : ends[k + 1]]).decode() for k in chosen], object)
    return Questions("quora", "official layout", texts, targets[chosen])


def count(folder: Path) -> int:
    """Return the number of added questions."""
    kept = _kept(folder)
    return len(kept["targets"]) if kept else 0


def keep(folder: Path, questions: Questions) -> None:
    """Store real questions in `folder`, replacing any that are there."""
    encoded = [text.encode() for text in questions.texts]
    with locked(folder / "quora.lock"):
        store.write(
            mapped(folder),
            version=FORMAT,
            targets=questions.targets,
            ends=np.cumsum([len(text) for text in encoded]),
            blob=np.frombuffer(b"".join(encoded), np.uint8),
        )


def read_csv(path: Path) -> Questions:
    """Return the questions of a CSV file, or of the ``train.csv`` in a zip archive.

    Raises DataError, with a line number if a row is invalid.
    """
    texts, targets = [], []
    try:
        with _opened(path) as file:
            rows = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                raise DataError(
                    f"{path} has no column {', '.join(missing)}; its first line is "
                    f"{','.join(rows.fieldnames or ())[:80]!r}. Use train.csv with "
                    f"the columns {', '.join(COLUMNS)} (test.csv has no targets)."
                )
            for row in rows:
                text, target = row["question_text"], row["target"]
                if target not in ("0", "1") or not (text and text.strip()):
                    raise DataError(
                        f"{path}, line {rows.line_num}: expected a question and a target of 0 or 1, "
                        f"got {str(text)[:60]!r} and {target!r}. Is the download "
                        "complete?"
                    )
                texts.append(text)
                targets.append(int(target))
    except (csv.Error, UnicodeDecodeError, zipfile.BadZipFile, zlib.error, EOFError) as problem:
        raise DataError(f"{path} cannot be read as a CSV file in UTF-8: {problem}. Download it again.") from problem
    return Questions("quora", "official layout", np.array(texts, object), np.array(targets, np.int32))


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a CSV file as text, or the ``train.csv`` of a zip archive."""
    if not zipfile.is_zipfile(path):
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        inside = [name for name in names if name.rpartition("/")[2] == "train.csv"]
        if len(inside) != 1:
            raise DataError(f"{path} holds no train.csv; it holds: {', '.join(names[:10])}.")
        with archive.open(inside[0]) as file:
            yield io.TextIOWrapper(file, encoding="utf-8-sig", newline="")


# ---------------------------------------------------------------- generated questions


def generate(samples: int = SAMPLES) -> Questions:
    """Generate questions, the same on every machine; a smaller set is the beginning of a larger one.

    Raises DataError if `samples` is not in 1 to `MOST`.
    """
    if not 0 < samples <= MOST:
        raise DataError(f"1 to {MOST:,} questions can be generated: {samples:,} is not possible.")
    texts, targets = zip(*islice(_rows(), samples), strict=True)
    return Questions("questions", "generated", np.array(texts, object), np.array(targets, np.int32))


def _rows() -> Iterator[tuple[str, int]]:
    draw = random.Random(0)
    while True:
        target = int(draw.random() < POSITIVE)
        tone, (both, first) = draw.random(), LOADED[target]
        frames = LOADED_FRAMES if tone < both + first else PLAIN_FRAMES
        ends = LOADED_ENDS if tone < both else PLAIN_ENDS
        yield (draw.choice(frames) + draw.choice(ends)).format_map(_Words(draw)), target


class _Words(dict):
    """Mapping that chooses a word for each gap of a frame on lookup."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def __missing__(self, gap):
        kind = gap.rstrip("0123456789")
        if kind == "name":
            # Name frequencies follow Zipf's law: the k-th is 1/k as frequent as the first.
            return NAMES[int(len(NAMES) ** self.draw.random()) - 1]
        chosen = self.draw.choice(WORDS[kind])
        return chosen.format_map(self) if "{" in chosen else chosen


FIRST = "Ba Cor Del Fen Gal Hol Jas Kel Lo Mar Nor Pel Quin Ros Sel Tar Ul Vel Wes Zan".split()
MIDDLE = "be da fi go la mi no ra se ti vo zu".split()
LAST = "burg dale don fax gate ka land lia mont nex port ra soft ton tron ville".split()
NAMES = ["".join(parts) for parts in product(FIRST, MIDDLE, LAST)]
random.Random(0).shuffle(NAMES)

PLAIN_FRAMES = (
    "How do I {act} a {quality} {thing}",
    "What is the best way to {act} my {thing} in {name}",
    "Which {thing} is better, the {name} or the {name}",
    "Why does my {thing} {fault} after a {while}",
    "What is it like to work as a {job} at {name}",
    "Can a {job} learn {skill} in a {while}",
    "What should {group} know before they move to {name}",
    "Why do {group} {habit}",
)
LOADED_FRAMES = (
    "Why do {group} always {deed} and never admit it",
    "Why are {group} so {vice}",
    "How can {group} be so {vice} and still {habit}",
    "Do {group} really think that we need their {vice} {skill}",
    "Since {group} {deed}, why are they allowed to {act} a {thing}",
)
PLAIN_ENDS = ("?", " in {name}?", " every {while}?", " without a {thing}?", " like the {job}s of {name}?")
LOADED_ENDS = (
    ", as everybody in {name} knows?",
    ", or are they just {vice}?",
    ", and who will stop them before they {deed}?",
    " while the rest of {name} has to pay for it?",
)
WORDS = {
    "act": "repair build clean sell choose paint carry insure".split(),
    "thing": "bicycle kettle camera laptop guitar tent lamp boat phone printer garden roof engine violin".split(),
    "fault": "stop leak rattle overheat restart".split(),
    "while": "week month year summer".split(),
    "quality": "good cheap small modern quiet reliable".split(),
    "job": "teacher nurse baker pilot engineer farmer tailor lawyer".split(),
    "skill": "algebra cooking statistics chess history sailing".split(),
    "group": ["tea drinkers", "cyclists", "people from {name}", "{job}s", "people who like {skill}", "{name} users"],
    "habit": ["get up early", "wear hats", "travel to {name}", "collect stamps", "talk about {skill}"],
    "deed": ["lie about {skill}", "ruin {name}", "cheat", "blame the {job}s", "waste our money", "steal every {thing}"],
    "vice": "arrogant lazy greedy dishonest rude selfish useless".split(),
}
