"""Experiments of lesson 4: arms, data and choice of learning rates. `tools/reference.py` records them.

In all of them:

- A run is one rank that takes its global batch in passes of the ghost batch. Gradients and batch norm are then those of
  ranks × passes of the same size (a test holds that), and two runs share two cores without exchanging anything.
- Rates are chosen on validation pictures that no run trains on, with seeds that are not judged. A grid has factor 2,
  and grows until its best rate is not at an edge.
- Judged seeds are shared by all arms of an experiment, so that differences can be paired.
- Runs use bfloat16 if it is faster on the processor; each record has its precision.

A test picture is looked at by judged runs alone.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from recordings import Trainings

SMALL, MIDDLE, LARGE, GHOST = 64, 256, 1024, 32
BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
TUNING, JUDGED = (100, 101), (0, 1, 2, 3, 4)

NORM = dict(recipe="batch_norm", ghost_batch=GHOST, statistics="recomputed")
# Peak rates are 16 times the rates at the reference batch, where the warm-up starts.
WARM = NORM | dict(recipe="warmup", global_batch=LARGE)
BIASES_APART = "LARS, trust 0.001, biases apart"
BOTH = ("float32", "bfloat16")
LEARNED = 0.15  # held-out accuracy of a run that has learned anything; chance is 0.1


@dataclass(frozen=True)
class Size:
    """Size of the experiments: full, or small to check that recording works."""

    # Training pictures: 45,056 are left of CIFAR-10's 50,000 (704 × 64 = 44 × 1024); few enough to be memorized, in the
    # search for a generalization gap, are 5,120 (80 × 64 = 5 × 1024).
    samples: int = 45_056
    few: int = 5_120
    epochs: float = 4
    long: int = 10  # epochs of that search; at equal steps, a large batch takes sixteen times as many
    warmup_epochs: float = 1
    test_samples: int | None = None
    target: float = 0.65  # held-out accuracy that the search for the critical batch size trains to
    batches: tuple = BATCHES  # that it tries
    few_batches: tuple = (32, 128, 512, 1024, 2048, 4096)  # with all settings of a batch tuned
    matched: float = 0.3  # training loss, without augmentation, at which arms are compared
    parts: tuple = (1, 1 / 2, 1 / 4, 1 / 8)  # of a batch's rate, of networks whose sharpness is compared
    landscape: dict = field(default_factory=lambda: dict(eigenvalues=1, tolerance=0.02))  # options of landscape.py
    most_epochs: int = 16
    frozen: tuple = (0.5, 0.58, 0.65)  # held-out accuracies at which the noise scale is measured at weights that stay
    tuning: tuple = TUNING
    thrice: tuple = (100, 101, 102)
    judged: tuple = JUDGED
    again: tuple = tuple(range(10, 20))  # seeds that the lesson's conclusions did not use
    confirming: tuple = tuple(range(20, 28))  # seeds that confirm an exploratory result; their number was fixed before
    widest: int = 16  # rates of a grid at most


SIZES = {
    "reader": Size(),
    "smoke": Size(
        samples=2_048,
        few=1_024,
        epochs=1,
        long=1,
        warmup_epochs=0.5,
        test_samples=200,
        target=0.12,
        batches=(64, 128),
        few_batches=(64, 128),
        matched=2.2,
        parts=(1, 1 / 8),
        landscape=dict(samples=128, chunk=64, iterations=4, eigenvalues=1, probes=2, points=3, noise_samples=512),
        frozen=(0.1, 0.12),
        most_epochs=2,
        tuning=(100,),
        thrice=(100, 101),
        judged=(0,),
        again=(10,),
        confirming=(20,),
        widest=3,
    ),
}


def failure_rate(runs: list) -> float:
    """Return the mean held-out error of runs; infinite if one of them learned nothing."""
    if any(run["diverged"] or run["test_accuracy"] < LEARNED for run in runs):
        return math.inf
    return 1 - statistics.fmean(run["test_accuracy"] for run in runs)


@dataclass
class Search:
    """Grid of one arm's rates, spaced by `factor`, extended until the best is not at an edge."""

    first: float
    cost: Callable[[float], float]  # of a rate: the lower the better
    widest: int
    factor: float = 2
    tried: dict = field(default_factory=dict)

    def best(self) -> float:
        """Return the best rate."""
        for power in (0, 1, -1):
            self._try(self.factor**power * self.first)
        while len(self.tried) < self.widest:
            best = min(self.tried, key=self.tried.get)
            if self.tried[best] == math.inf:  # all failed so far
                self._try(min(self.tried) / self.factor)
                self._try(self.factor * max(self.tried))
            elif best == max(self.tried):
                self._try(self.factor * best)
            elif best == min(self.tried):
                self._try(best / self.factor)
            else:
                break
        return min(self.tried, key=self.tried.get)

    def _try(self, rate):
        if rate not in self.tried:
            self.tried[rate] = self.cost(rate)


def best_rate(make: Trainings, size: Size, arm: str, first: float, settings: dict, seeds: tuple, results: list):
    """Return an arm's best rate on validation images, from a grid around `first`; add its runs to `results`."""

    def cost(rate):
        fixed = settings | dict(learning_rate=rate, held_out="validation", test_samples=size.test_samples)
        runs = make.together(lambda seed: make.train(arm, **fixed, seed=seed), seeds)
        results.extend({**run, "role": "tuning"} for run in runs)
        return failure_rate(runs)

    return Search(first, cost, size.widest).best()


# ---------------------------------------------------------------- the arms

# Each with its grid's first rate, at the reference batch of 64.
TUNED = {
    "small batch": (0.05, dict(recipe="base", global_batch=SMALL, ghost_batch=GHOST)),
    "large batch": (0.2, dict(recipe="base", global_batch=LARGE, ghost_batch=GHOST)),
    "small batch + BN": (0.05, NORM | dict(global_batch=SMALL)),
    "large batch + BN": (0.4, NORM | dict(global_batch=LARGE)),
    "+ warm-up": (0.05, WARM),
    "LARS": (0.1, WARM | dict(recipe="lars")),
    "LARS, trust 0.001": (1.6, WARM | dict(recipe="lars", trust=0.001)),
    "LAMB": (0.0025, WARM | dict(recipe="lamb")),
}


def warmed(settings, size):
    """Return settings with this size's warm-up, if the recipe has one."""
    has = settings["recipe"] not in ("base", "batch_norm", "scale_lr")
    return settings | ({"warmup_epochs": size.warmup_epochs} if has else {})


def tune_arms(make: Trainings, size: Size) -> tuple[dict, list]:
    """Return the best rate of each of `TUNED` on validation pictures, and all results."""
    results: list = []

    def tune(arm):
        first, settings = TUNED[arm]
        settings = warmed(settings, size) | dict(train_samples=size.samples, epochs=size.epochs)
        return best_rate(make, size, arm, first, settings, size.tuning, results)

    rates = dict(zip(TUNED, make.together(tune, TUNED), strict=True))
    return rates, results


def judge_arms(make: Trainings, size: Size, rates: dict) -> list:
    """Return the final runs: every arm at its best rate, and arms for a scaling rule at the rule's rate."""
    small, small_bn = rates["small batch"], rates["small batch + BN"]
    large, plain = TUNED["large batch"][1], TUNED["large batch + BN"][1]
    arms = {arm: (rates[arm], settings) for arm, (_, settings) in TUNED.items()}
    arms |= {
        "large batch, same rate": (small, large),
        "large batch + BN, same rate": (small_bn, plain),
        "+ linear scaling": (small_bn, plain | dict(recipe="scale_lr")),
        "+ linear scaling, warm-up": (small_bn, WARM),
        "+ square-root scaling, warm-up": (small_bn, WARM | dict(recipe="sqrt_lr")),
    }
    few = round(size.epochs * (size.samples // LARGE))
    wanted = {
        arm: warmed(settings, size) | dict(learning_rate=rate, epochs=size.epochs)
        for arm, (rate, settings) in arms.items()
    }
    wanted["small batch + BN, few steps"] = TUNED["small batch + BN"][1] | dict(learning_rate=small_bn, steps=few)
    samples = dict(train_samples=size.samples, test_samples=size.test_samples)
    return each_seed(make, {arm: settings | samples for arm, settings in wanted.items()}, size.judged)


def each_seed(make: Trainings, arms: dict, seeds: tuple) -> list:
    """Return a training of each arm, a name and its settings, with each seed."""
    pairs = [(arm, seed) for seed in seeds for arm in arms]
    return make.together(lambda arm, seed: make.train(arm, **arms[arm], seed=seed), *zip(*pairs, strict=True))


def arms_again(make: Trainings, size: Size, rates: dict) -> list:
    """Return arms with small effects, with other seeds, and batch 64 with the large batch's warm-up.

    `rates` are the arms' earlier rates; the new arm's rate is chosen here.
    """
    samples = dict(train_samples=size.samples, test_samples=size.test_samples, epochs=size.epochs)
    warm = warmed(WARM, size) | samples
    small = rates["small batch + BN"]
    small_warm = warm | dict(global_batch=SMALL, warmup_start=SMALL / LARGE)  # same warm-up factor as the large batch
    results: list = []
    best = best_rate(make, size, "batch 64 with warm-up", small, small_warm, size.tuning, results)
    arms = {
        "small batch + BN": TUNED["small batch + BN"][1] | samples | dict(learning_rate=small),
        "batch 64 with warm-up": small_warm | dict(learning_rate=best),
        "+ warm-up": warm | dict(learning_rate=rates["+ warm-up"]),
        "+ linear scaling, warm-up": warm | dict(learning_rate=small),
        "LAMB": warm | dict(recipe="lamb", learning_rate=rates["LAMB"]),
    }
    return results + [{**run, "role": "judged"} for run in each_seed(make, at_the_end(arms, size), size.again)]


def lars_biases(make: Trainings, size: Size, rates: dict) -> list:
    """Return LARS with its paper's trust coefficient and a separate bias rate, and the earlier LARS, with other seeds.

    First the bias rate is chosen at the arm's earlier rate, then the rate itself.
    """
    samples = dict(train_samples=size.samples, test_samples=size.test_samples, epochs=size.epochs)
    apart, results = warmed(TUNED["LARS, trust 0.001"][1], size) | samples, []

    def cost(rate, part):
        fixed = apart | dict(learning_rate=rate, bias_rate=part, held_out="validation")
        runs = make.together(lambda seed: make.train(BIASES_APART, **fixed, seed=seed), size.tuning)
        results.extend({**run, "role": "tuning"} for run in runs)
        return failure_rate(runs)

    before = rates["LARS, trust 0.001"]
    parts = Search(1 / 4, lambda part: cost(before, part), size.widest)
    part = parts.best()
    rate = Search(before, lambda rate: cost(rate, part), size.widest, tried={before: parts.tried[part]}).best()
    arms = {name: warmed(TUNED[name][1], size) | samples for name in ("LARS", "LARS, trust 0.001")}
    arms = {name: settings | dict(learning_rate=rates[name]) for name, settings in arms.items()}
    arms[BIASES_APART] = apart | dict(learning_rate=rate, bias_rate=part)
    judged = each_seed(make, at_the_end(arms, size), size.again[:5])
    return results + [{**run, "role": "judged"} for run in judged]


def in_both_precisions(make: Trainings, size: Size, rates: dict) -> list:
    """Return the small batch, LARS and LAMB at their rates, the same seeds in float32 and in bfloat16."""
    samples = dict(train_samples=size.samples, test_samples=size.test_samples, epochs=size.epochs)
    arms = {
        f"{name}, {precision}": warmed(TUNED[name][1], size) | samples | dict(
            learning_rate=rates[name], precision=precision
        )
        for name in ("small batch + BN", "LARS", "LAMB")
        for precision in BOTH
    }  # fmt: skip
    return each_seed(make, at_the_end(arms, size), size.again[:5])


def at_the_end(arms: dict, size: Size) -> dict:
    """Return arms that are evaluated only at the end."""
    return {name: settings | dict(evaluate_epochs=round(size.epochs)) for name, settings in arms.items()}


# ---------------------------------------------------------------- is there a generalization gap?


def generalization(make: Trainings, size: Size) -> list:
    """Return runs that may memorize their images: at equal epochs, equal steps, and equal training loss.

    They use few images without augmentation.
    """
    few = by_heart(size)
    ratio = LARGE // SMALL
    arms = {
        "small batch": (0.05, few | dict(global_batch=SMALL, epochs=size.long)),
        "large batch": (0.2, few | dict(global_batch=LARGE, epochs=size.long)),
        "large batch, equal steps": (0.2, few | dict(global_batch=LARGE, epochs=ratio * size.long, evaluate_epochs=8)),
    }
    results: list = []

    def tune(arm):
        first, settings = arms[arm]
        # A training that is sixteen times as long gets one seed per rate.
        seeds = size.tuning[:1] if settings["epochs"] > size.long else size.tuning
        return best_rate(make, size, arm, first, settings, seeds, results)

    rates = dict(zip(arms, make.together(tune, arms), strict=True))
    wanted = {arm: settings | {"learning_rate": rates[arm]} for arm, (_, settings) in arms.items()}
    for arm in ("small batch", "large batch"):
        wanted |= to_a_loss(size, arm, arms[arm][1], rates[arm])
    wanted = {arm: settings | dict(test_samples=size.test_samples) for arm, settings in wanted.items()}
    judged = each_seed(make, wanted, size.judged)
    return results + [{**run, "role": "judged"} for run in judged]


def to_a_loss_again(make: Trainings, size: Size, rates: dict) -> list:
    """Return, with other seeds, the arms that stop at a loss, at rates that were chosen before, by batch size."""
    fixed = by_heart(size) | dict(test_samples=size.test_samples)
    wanted = {}
    for arm, batch in (("small batch", SMALL), ("large batch", LARGE)):
        wanted |= to_a_loss(size, arm, fixed | dict(global_batch=batch), rates[batch])
    return each_seed(make, wanted, size.again)


def by_heart(size: Size) -> dict:
    """Return the settings of runs that may memorize their images."""
    return NORM | dict(train_samples=size.few, no_augment=True)


def to_a_loss(size: Size, arm: str, settings: dict, rate: float) -> dict:
    """Return the arms of a batch that stop at a loss: at its rate, and at an eighth of it."""
    return {
        f"{arm}{name}, to a loss": settings | until_a_loss(size) | {"learning_rate": factor * rate}
        for name, factor in (("", 1), (", low rate", 1 / 8))
    }


def until_a_loss(size: Size) -> dict:
    """Return the settings of runs that stop at a loss, at a constant rate, because decays would differ."""
    return dict(schedule="constant", target_loss=size.matched, epochs=4 * size.most_epochs)


# ---------------------------------------------------------------- sharpness


def sharpness(make: Trainings, size: Size, rates: dict) -> list:
    """Return the sharpness of networks of equal training loss: three batch sizes, several rates each.

    `rates` are the highest of the smallest and of the largest batch; between both lies their geometric mean.
    """
    return sharpness_of(make, size, rates, size.again[:6], ["eigenvalue", "invariant"])


def sharpness_confirmed(make: Trainings, size: Size, rates: dict) -> list:
    """Return the largest eigenvalues of the same settings with new seeds.

    Confirms one exploratory result, planned before the first run: within settings, the rank correlation of eigenvalue
    and held-out errors, averaged over all settings, is above 0 at the 95 % level. No seed is left out.
    """
    return sharpness_of(make, size, rates, size.confirming, ["eigenvalue"])


def sharpness_of(make: Trainings, size: Size, rates: dict, seeds: tuple, measures: list) -> list:
    few = by_heart(size) | dict(test_samples=size.test_samples)
    highest = {SMALL: rates[SMALL], MIDDLE: math.sqrt(rates[SMALL] * rates[LARGE]), LARGE: rates[LARGE]}

    def measure(batch, part, seed):
        settings = few | until_a_loss(size) | dict(global_batch=batch, learning_rate=part * highest[batch])
        trained = make.train(f"batch {batch:,}", **settings, keep_weights=True, seed=seed)
        found = make.run("landscape.py", trained["name"], weights=trained["id"], measure=measures, **size.landscape)
        return {**found, "stopped_by": trained["stopped_by"]}

    wanted = [(batch, part, seed) for seed in seeds for batch in highest for part in size.parts]
    return make.together(measure, *zip(*wanted, strict=True))


# ---------------------------------------------------------------- one axis of norms


def ghost_batches(make: Trainings, size: Size, rate: float) -> list:
    """Return runs at the large batch that differ only in batch norm's batch size."""
    settings = warmed(WARM, size) | dict(
        learning_rate=rate, epochs=size.epochs, train_samples=size.samples, test_samples=size.test_samples
    )
    arms = {f"ghost batch {ghost}": settings | dict(ghost_batch=ghost) for ghost in (32, 64, 128, 512)}
    results = each_seed(make, arms, size.judged)
    # Statistics of all ranks together, in one pass of each.
    synchronous = settings | dict(ghost_batch=None, sync_bn=True, workers=2)
    return results + [make.train("synchronous, 1024", **synchronous, seed=seed) for seed in size.judged]


# ---------------------------------------------------------------- noise scale at fixed weights


def noise_runs(make: Trainings, size: Size, batch: int, rate: float) -> list:
    """Return the noise scale at the weights of runs of one batch that stopped at several accuracies.

    ``live`` is each run's estimate up to that point during training.
    """

    def measure(target, seed):
        name = f"at {target:.0%}"
        trained = make.train(
            name,
            **NORM,
            global_batch=batch,
            learning_rate=rate,
            schedule="constant",
            seed=seed,
            epochs=size.most_epochs,
            evaluate_every=max(1, 2048 // batch),
            target_accuracy=target,
            held_out="validation",
            train_samples=size.samples,
            test_samples=size.test_samples,
            noise_scale=True,
            keep_weights=True,
        )
        frozen = make.run("landscape.py", name, weights=trained["id"], measure=["noise"], **size.landscape)
        figures = ("noise_scale", "gradient_sq", "variance")
        live = {figure: trained["history"][-1][figure] for figure in figures}
        return {**frozen, "target": target, "live": live, "steps": trained["steps"], "samples": trained["samples"]}

    pairs = [(target, seed) for target in size.frozen for seed in size.judged[:3]]
    return make.together(measure, *zip(*pairs, strict=True))
