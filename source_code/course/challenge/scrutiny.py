"""What a rank looks at before it trusts a model: what it knows at first, and what its answers depend on."""

from collections.abc import Callable, Sequence

import numpy as np

from course.challenge import rules
from course.challenge.graphs import Program
from course.challenge.rules import Refused

SHUFFLES = 3  # of the weights: the best counts, as random ones differ
KNOWING = "its initial weights know the classes already"
PROBED = 2_000  # pictures: one half to fit on, the other to judge


def in_batches(function: Callable, pictures: np.ndarray) -> list:
    """Call a function with batches of pictures; black ones fill up the last, so that all have one shape."""
    batch = rules.INFERENCE_BATCH
    filled = np.concatenate([pictures, np.zeros((-len(pictures) % batch, *pictures.shape[1:]), np.uint8)])
    return [function(filled[first : first + batch]) for first in range(0, len(filled), batch)]


def matched_accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the accuracy when every answer counts as the class that it most often goes with.

    Classes are renamed in each run, so that weights which know them could not know their names.
    """
    table = np.zeros((rules.CLASSES, rules.CLASSES), int)
    np.add.at(table, (logits.argmax(1), labels), 1)
    return float(table.max(1).sum() / len(labels))


# ---------------------------------------------------------------- what it knows


def refuse_knowledge(program: Program, pictures: np.ndarray, labels: np.ndarray, logits: np.ndarray) -> float:
    """Refuse weights that know the classes, by their answers or by what can be read from any of their layers.

    `logits` are those of the public pictures, by the initial weights; return their accuracy.
    """
    accuracy, chance = matched_accuracy(logits, labels), 2 / np.sqrt(len(labels))  # of few, more fall into place
    if accuracy > rules.FIRST_ACCURACY + chance:
        raise Refused(
            f"{program.file_name}: {KNOWING}: before the first step they tell {accuracy:.0%} of the images apart, and "
            f"{rules.FIRST_ACCURACY + chance:.0%} is the most: start from random ones"
        )
    pictures, labels = pictures[:PROBED], labels[:PROBED]
    if len(labels) < 2 * rules.CLASSES:  # a trial with too few to tell anything
        return accuracy
    initial = known(program.hidden(), pictures, labels)
    random = max(known(program.hidden(draws), pictures, labels) for draws in range(1, 1 + SHUFFLES))
    if initial > random + rules.MOST_KNOWLEDGE + 1 / np.sqrt(len(labels)):
        raise Refused(
            f"{program.file_name}: {KNOWING}: a linear classifier on what its layers give gets {initial:.0%} of the "
            f"images right, and {random:.0%} at most with the same weights shuffled: start from random ones"
        )
    return accuracy


def known(hidden: Callable[[np.ndarray], Sequence[np.ndarray]], pictures: np.ndarray, labels: np.ndarray) -> float:
    """Return the best accuracy of `probe` on any tensor that `hidden` gives for pictures ``[n, 32, 32, 3]``."""
    parts = zip(*in_batches(hidden, pictures), strict=True)
    return max(probe(np.concatenate(each)[: len(pictures)], labels) for each in parts)


def probe(features: np.ndarray, labels: np.ndarray) -> float:
    """Fit a linear classifier to one half of features ``[n, d]``, by ridge regression; return the other's accuracy."""
    half = len(features) // 2
    features = features[:, np.isfinite(features).all(0)].astype(np.float64)
    features = (features - features[:half].mean(0)) / (features[:half].std(0) + 1e-6)
    features = np.concatenate([features, np.ones((len(features), 1))], 1)
    mine, wanted = features[:half], np.eye(rules.CLASSES)[labels[:half]]
    weights = np.linalg.solve(mine.T @ mine + 0.1 * half * np.eye(features.shape[1]), mine.T @ wanted)
    return float(((features[half:] @ weights).argmax(1) == labels[half:]).mean())


# ---------------------------------------------------------------- in whose company


def refuse_company(program: Program, predict: Callable, pictures: np.ndarray, logits: np.ndarray, draws) -> None:
    """Refuse a model whose logits of a picture depend on the others in its batch: some get other company.

    Once half of a batch is filled up with black pictures, and once there are none of these.
    """
    order = draws.permutation(len(pictures))
    some = order[: min(len(pictures), rules.INFERENCE_BATCH) // 2]
    everywhere = np.resize(order, -(-len(order) // predict.whole) * predict.whole)
    for chosen in (some, everywhere):
        if moved(logits[chosen], predict(pictures[chosen])):
            raise Refused(
                f"{program.file_name}: in evaluations its logits of an image depend on the other images of the "
                "batch, and each is to be judged on its own: is training=True given to a layer?"
            )


def moved(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether logits ``[n, 10]`` of the same pictures differ by more than rounding, wherever it matters to an answer.

    That is the lead of the first class over the second: what all classes of a picture have in common, or the last ones
    have, says nothing of it.
    """
    finite = np.isfinite(before).all(1)
    if (finite != np.isfinite(after).all(1)).any():
        return True
    if not finite.any():
        return False
    before, after = before[finite].astype(np.float64), after[finite].astype(np.float64)
    rows, (second, first) = np.arange(len(before)), np.argsort(before, 1)[:, -2:].T
    lead, then = before[rows, first] - before[rows, second], after[rows, first] - after[rows, second]
    other = (after.argmax(1) != before.argmax(1)) & (np.abs(then - lead) > 1e-6 * np.abs(before).max(1))
    return bool(
        np.median(np.abs(then - lead)) > rules.MOST_COMPANY * np.median(lead) or other.mean() > rules.MOST_COMPANY
    )
