"""Named recipes: what each configuration of the convergence comparison changes, one thing at a time.

::

    base ── batch_norm ── scale_lr ── warmup ─┬─ sqrt_lr
                                              ├─ lamb
                                              └─ lars
"""

import math
from dataclasses import dataclass

from ddl.errors import CourseError

# Learning rates hold for this global batch. The linear rule multiplies them by global batch / REFERENCE_BATCH.
REFERENCE_BATCH = 64


# Factors of the learning rate at k times the reference batch, by rule.
SCALE = {"fixed": lambda k: 1, "linear": lambda k: k, "sqrt": math.sqrt}


def scaled(base_rate: float, global_batch: int, rule: str) -> float:
    """Return the learning rate at a global batch, from the rate at ``REFERENCE_BATCH``."""
    return base_rate * SCALE[rule](global_batch / REFERENCE_BATCH)


class SettingError(CourseError, ValueError):
    """Setting unknown, or incompatible with the others."""


@dataclass(frozen=True)
class Optimizer:
    """An optimizer that recipes and ``--optimizer`` name: this is the only place where one is registered.

    `make` is a function of course.training.optimizer: it takes the learning rate, the weight decay, and the options
    that the optimizer `fits`. `base_rate` is its learning rate at the reference batch. Rates differ, because layer-wise
    ones scale a step by the layer's norm. They come from grids on validation images, two seeds per rate, recorded in
    results/reference/convergence-tuning.jsonl (45,056 CIFAR-10 images, 4 epochs; a test compares).
    """

    name: str
    make: str
    base_rate: float
    fits: tuple[str, ...] = ()


OPTIMIZERS = {
    each.name: each
    for each in (
        # The best for the small batch without norm, because all configurations with SGD share it. With norm, 0.2 is
        # best.
        Optimizer("sgd", "sgd", 0.05, fits=("momentum",)),
        Optimizer("adam", "adam", 0.001),  # Kingma and Ba 2015, section 2: not searched
        # LAMB's paper scales with the square root of the batch (You et al. 2020, section 4). Here, every configuration
        # uses the linear rule. At batch 1024, this rate is half the best of its grid and equally good; twice the best
        # learns nothing.
        Optimizer("lamb", "lamb", 0.0025),
        Optimizer("lars", "LARS", 0.1, fits=("momentum", "trust", "bias_rate")),  # the best of its configuration
    )
}


@dataclass(frozen=True)
class Recipe:
    """One configuration of the comparison. It differs from its `parent` in exactly one of the fields that follow.

    The norm is none or batch normalization, per worker (Hoffer et al. 2017 call it ghost batch norm) unless a run asks
    for synchronous statistics. With the rule "linear", the rate is proportional to the global batch (Goyal et al. 2017,
    section 2.1); with "sqrt", to its square root, which keeps the variance of an update the same (Krizhevsky 2014,
    arXiv:1404.5997, section 5; Hoffer et al. 2017, section 4). During warm-up, it increases to the scaled value (Goyal
    et al. 2017, section 2.2).
    """

    name: str
    parent: str | None = None
    norm: str = "none"
    lr_rule: str = "fixed"
    warmup_epochs: float = 0
    optimizer: str = "sgd"

    def __post_init__(self):
        if self.optimizer not in OPTIMIZERS:
            raise SettingError(
                f"recipe {self.name}: there is no optimizer {self.optimizer!r}; registered are: {', '.join(OPTIMIZERS)}"
            )


_BATCH_NORM = {"norm": "batch"}
_SCALE_LR = {**_BATCH_NORM, "lr_rule": "linear"}
_WARMUP = {**_SCALE_LR, "warmup_epochs": 2}

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("base"),
        Recipe("batch_norm", "base", **_BATCH_NORM),
        Recipe("scale_lr", "batch_norm", **_SCALE_LR),
        Recipe("warmup", "scale_lr", **_WARMUP),
        Recipe("sqrt_lr", "warmup", **_WARMUP | {"lr_rule": "sqrt"}),
        Recipe("lamb", "warmup", **_WARMUP, optimizer="lamb"),
        Recipe("lars", "warmup", **_WARMUP, optimizer="lars"),
    )
}


def micro_batch(global_batch, ranks, passes=1):
    """Return the samples per backward pass: global batch / ranks / passes.

    Raises SettingError, with the nearest valid global batch, if that is not an integer.
    """
    parts = ranks * passes
    if global_batch % parts:
        nearest = max(1, round(global_batch / parts)) * parts
        each = f"{ranks} ranks" + (f" × {passes} backward passes" if passes > 1 else "")
        raise SettingError(
            f"a global batch of {global_batch} cannot be divided evenly over {each}; the nearest that can is {nearest}"
        )
    return global_batch // parts


def passes_for(ghost_batch, global_batch, ranks):
    """Return the backward passes per step for which batch norm sees `ghost_batch` samples at a time.

    Raises SettingError if a rank's part of the global batch is not a multiple of it.
    """
    part = micro_batch(global_batch, ranks)
    if part % ghost_batch:
        raise SettingError(
            f"a ghost batch of {ghost_batch} does not divide a rank's {part} samples of each step "
            f"(global batch {global_batch}, {ranks} ranks)"
        )
    return part // ghost_batch
