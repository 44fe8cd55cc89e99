"""Sweeps for lesson 4's critical batch size: steps to a target against the batch.

One uses the best of a grid of rates; another also tunes momentum and warm-up.
"""

import math
import statistics

from convergence import GHOST, LARGE, NORM, SMALL, Search, Size, failure_rate
from course.convergence.critical import crossing
from recordings import Trainings

# The grids' first rates at batch 32, scaled by the square root of the batch.
OPTIMIZERS = {
    "SGD with momentum": (0.05, {}),
    "LAMB": (0.005, dict(optimizer="lamb")),
    "plain SGD": (0.4, dict(momentum=0)),
}
PRUNE = 1.3  # runs are stopped at this multiple of the best rate's samples
EVALUATIONS = 24  # until about the target


def sweep(make: Trainings, size: Size, optimizer: str) -> list:
    """Return runs to the target at constant rates for each batch: a grid of rates, then final seeds at the best."""
    first, settings = OPTIMIZERS[optimizer]
    results = []

    def run(batch, rate, seed, most, role):
        result = make.train(
            f"{optimizer}, batch {batch}",
            **NORM | settings,
            global_batch=batch,
            learning_rate=rate,
            schedule="constant",
            seed=seed,
            steps=max(1, round(most / batch)),
            evaluate_every=steps_between(size, batch, EVALUATIONS),
            target_accuracy=size.target,
            held_out="validation",
            train_samples=size.samples,
            test_samples=size.test_samples,
            noise_scale=batch > GHOST,
        )
        results.append({**result, "arm": optimizer, "role": role})
        return result

    def find(batch):
        begin = first * 2 ** round(math.log2(batch / 32) / 2)
        reached = []

        def cost(rate):
            most = min([size.samples * size.most_epochs, *(PRUNE * samples for samples in reached)])
            result = run(batch, rate, size.tuning[0], most, "tuning")
            if result["stopped_by"] == "target":
                reached.append(result["samples"])
                return result["samples"]
            return too_many(size, result)

        best = Search(begin, cost, size.widest).best()
        most = 3 * min(reached, default=size.samples * size.most_epochs)
        make.together(lambda seed: run(batch, best, seed, most, "judged"), size.judged[:3])

    make.together(find, size.batches)
    return results


def steps_between(size: Size, batch: int, evaluations: int) -> int:
    """Return the steps between evaluations, so that each batch has about the same number up to the target."""
    return max(1, round(size.samples * (1 + batch / 500) / evaluations / batch))


def too_many(size: Size, result: dict) -> float:
    """Return a penalty in samples for a run that missed the target, smaller for better runs."""
    return 2 * size.samples * size.most_epochs * (1 + failure_rate([result]))


def best_rates(results: list) -> dict:
    """Return each batch's final rate."""
    return {result["global_batch"]: result["learning_rate"] for result in results if result["role"] == "judged"}


# ---------------------------------------------------------------- with momentum and warm-up tuned

FARTHEST = {"plain SGD": 1024}  # batches: beyond five times the critical batch, one run takes minutes
MOMENTUM = 0.9  # that grids begin with
FINER = math.sqrt(2)  # the factor of grids
CLIMB = 1 / 4  # of the samples that the best run without a warm-up needs
FINALISTS = 3  # settings that get all tuning seeds
FEWER_EVALUATIONS = 16  # until about the target, which is interpolated between two
SOONER, LATER = 1.2, 2  # times the fewest samples: where a run is stopped that tries a setting, and that tries it again


class Tuned:
    """The tuning of one optimizer at one batch: learning rate, warm-up and momentum, by samples to the target.

    One seed tries all settings; the best ones get the other seeds, and the best of these is evaluated on other images
    and seeds. A run is stopped once it can no longer be the best.
    """

    def __init__(self, make: Trainings, size: Size, optimizer: str, batch: int):
        self.make, self.size, self.optimizer, self.batch = make, size, optimizer, batch
        self.results: list = []
        self.needed: dict = {}  # samples of each seed, by setting

    def find(self, rate: float) -> list:
        """Return all runs; grids begin at `rate`."""
        best = self._best(rate)
        climb = CLIMB * min(map(min, self.needed.values())) / self.size.samples
        warm = dict(warmup_epochs=round(climb, 4), warmup_start=SMALL / LARGE)
        self._best(best, **warm)
        if self.optimizer == "SGD with momentum":
            # A grid of 1 − momentum, with a grid of rates for each, proportional to 1 − momentum.
            Search(1 - MOMENTUM, lambda rest: self._with_momentum(round(1 - rest, 4), warm), self.size.widest).best()
        self.make.together(lambda setting: self._others(setting), self._ranked()[:FINALISTS])
        chosen = self._ranked()[0]
        self.make.together(lambda seed: self._run(chosen, seed, 3 * self._fewest(), "judged"), self.size.judged)
        return self.results

    def _best(self, first, **fixed):
        return Search(first, lambda rate: self._cost(learning_rate=rate, **fixed), self.size.widest, FINER).best()

    def _with_momentum(self, momentum, warm):
        if momentum != MOMENTUM:
            leading = dict(self._ranked()[0])
            first = leading["learning_rate"] * (1 - momentum) / (1 - leading.get("momentum", MOMENTUM))
            self._best(first, **warm if "warmup_epochs" in leading else {}, momentum=momentum)
        found = self.needed.items()
        return min(needed[0] for setting, needed in found if dict(setting).get("momentum", MOMENTUM) == momentum)

    def _ranked(self):
        # Prefer settings with more seeds to those dropped after the first.
        return sorted(self.needed, key=lambda each: (-len(self.needed[each]), statistics.fmean(self.needed[each])))

    def _fewest(self):
        most = self.size.samples * self.size.most_epochs
        return min([most, *(statistics.fmean(found) for found in self.needed.values())])

    def _cost(self, **setting):
        key = tuple(setting.items())
        self.needed[key] = [self._samples(key, self.size.thrice[0], SOONER)]
        return self.needed[key][0]

    def _others(self, setting):
        self.needed[setting] += self.make.together(
            lambda seed: self._samples(setting, seed, LATER), self.size.thrice[1:]
        )

    def _samples(self, setting, seed, times):
        most = min(self.size.samples * self.size.most_epochs, times * self._fewest())
        result = self._run(setting, seed, most, "tuning")
        if result["stopped_by"] == "target":
            return crossing(result["history"], self.size.target).samples
        return too_many(self.size, result)

    def _run(self, setting, seed, most, role):
        result = self.make.train(
            f"{self.optimizer}, batch {self.batch}",
            **NORM | OPTIMIZERS[self.optimizer][1] | dict(setting),
            global_batch=self.batch,
            schedule="constant",
            seed=seed,
            steps=max(1, round(most / self.batch)),
            evaluate_every=steps_between(self.size, self.batch, FEWER_EVALUATIONS),
            target_accuracy=self.size.target,
            held_out="test" if role == "judged" else "validation",
            train_samples=self.size.samples,
            test_samples=self.size.test_samples,
        )
        self.results.append({**result, "arm": self.optimizer, "role": role})
        return result


def tuned_sweep(make: Trainings, size: Size, optimizer: str, rates: dict) -> list:
    """Return the runs of `Tuned` at each batch; `rates` are the best ones without warm-up, by batch."""
    batches = [batch for batch in size.few_batches if batch <= FARTHEST.get(optimizer, math.inf)]
    found = make.together(lambda batch: Tuned(make, size, optimizer, batch).find(rates[batch]), batches)
    return [result for results in found for result in results]
