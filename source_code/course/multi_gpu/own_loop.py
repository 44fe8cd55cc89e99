"""Checks for a reader's training step on replicas, lesson 3d's loop, by its final weights.

A test draws data (`trial`): a few samples for a linear model, whose step on a single device has a closed form, and
images of ten patterns that are new in each trial. `course.multi_gpu.loop_harness` uses the reader's step to train a
small network on some images and predict the labels of the others.
"""

from dataclasses import dataclass

import numpy as np

from course.grader.launches import launched, require

STEPS, FEATURES, CLASSES = 2, 6, 10
BATCH, BATCHES, OTHERS = 36, 36, 400  # two, three and four replicas divide 36
CLOSE = 2e-3  # relative: float32 rounds to about 1e-6
LEAST = 0.6  # accuracy; chance is 0.1, and model answers reach more than 0.9


@dataclass(frozen=True)
class Trial:
    """The data given to a step, the hidden labels, and the arrays that its process reported."""

    file: str
    given: dict[str, np.ndarray]
    others: np.ndarray
    found: dict[str, np.ndarray]


def trial(file: str, seed: int, replicas: int = 2) -> Trial:
    """Run a reader's step on this many replicas, with the data of a seed. Raises AssertionError if it fails."""
    given, others = _drawn(seed, replicas)
    (rank,) = launched(file, 1, {"given.npz": given}, program="course.multi_gpu.loop_harness")
    return Trial(file, given, others, rank.arrays)


def single_step(t: Trial) -> None:
    """Compare the linear model's loss and weights after each step with a single device's."""
    weights = [t.given["kernel"].astype(float), t.given["bias"].astype(float)]
    for number, (samples, labels) in enumerate(zip(t.given["few"], t.given["few_labels"], strict=True)):
        where = f"{t.file}, step {number + 1} of {len(labels)} samples on {t.given['replicas']} replicas"
        loss, slopes = _softmax_regression(*weights, samples.astype(float), labels)
        after = [t.found[name][number].astype(float) for name in ("kernels", "biases")]
        moved = np.concatenate([(before - new).ravel() for before, new in zip(weights, after, strict=True)])
        wanted = float(t.given["rate"]) * np.concatenate([slope.ravel() for slope in slopes])
        times = float(moved @ wanted / (wanted @ wanted))
        off = np.linalg.norm(moved - wanted) / np.linalg.norm(wanted)
        along = np.linalg.norm(moved - times * wanted) < CLOSE * np.linalg.norm(wanted)
        what = f"is {times:.3g} times" if along else f"is off by {off:.0%} of"
        require(off < CLOSE, f"{where}: the weights' update {what} a single device's")
        value = float(t.found["losses"][number])
        require(np.isclose(value, loss, rtol=CLOSE), f"{where}: it returned {value:.4g}; the mean loss is {loss:.4g}")
        weights = after


def learns(t: Trial) -> None:
    """Score the trained network on images whose labels were hidden."""
    right = float(np.mean(t.found["predicted"] == t.others))
    require(
        right >= LEAST,
        f"{t.file}: trained on {BATCH * BATCHES} images, the network labels {right:.0%} of {OTHERS} others correctly; "
        f"at least {LEAST:.0%} is required, and chance is {1 / CLASSES:.0%}",
    )


def _softmax_regression(kernel, bias, samples, labels):
    """Return the mean cross-entropy and its gradients for kernel and bias."""
    logits = samples @ kernel + bias
    logits -= logits.max(axis=1, keepdims=True)
    likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    loss = -float(np.mean(np.log(likely[np.arange(len(labels)), labels])))
    back = (likely - np.eye(CLASSES)[labels]) / len(labels)
    return loss, (samples.T @ back, back.sum(axis=0))


def _drawn(seed, replicas):
    """Return the input for the process, and the labels that it should predict."""
    draw = np.random.default_rng(seed)
    patterns = np.kron(draw.normal(size=(CLASSES, 8, 8, 3)), np.ones((1, 4, 4, 1)))
    labels = draw.integers(CLASSES, size=BATCH * BATCHES + OTHERS).astype(np.int32)
    images = patterns[labels]
    for number, shift in enumerate(draw.integers(-3, 4, size=(len(labels), 2))):
        images[number] = np.roll(images[number], shift, axis=(0, 1))
    images = 128 + 30 * images + 30 * draw.normal(size=images.shape)
    images = np.clip(images, 0, 255).astype(np.uint8)
    count, few = BATCH * BATCHES, replicas * int(draw.integers(3, 6))
    given = {
        "replicas": np.int32(replicas),
        "few": draw.normal(size=(STEPS, few, FEATURES)).astype(np.float32),
        "few_labels": draw.integers(CLASSES, size=(STEPS, few)).astype(np.int32),
        "kernel": draw.normal(size=(FEATURES, CLASSES)).astype(np.float32),
        "bias": draw.normal(size=CLASSES).astype(np.float32),
        "rate": np.float32(0.5),
        "images": images[:count].reshape(BATCHES, BATCH, 32, 32, 3),
        "labels": labels[:count].reshape(BATCHES, BATCH),
        "others": images[count:],
    }
    return given, labels[count:]
