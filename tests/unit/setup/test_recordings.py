"""The experiments of lesson 4, as they are planned: with trainings that are formulas."""

import math

import pytest

pytest.importorskip("horovod.tensorflow")

import convergence
import sweeps
import train_cifar
from convergence import JUDGED, SIZES, TUNED, TUNING, Search
from course.training.recipes import settle
from ddl.launcher.job import option_arguments
from recordings import compact
from sweeps import OPTIMIZERS, PRUNE

SIZE = SIZES["reader"]
B_CRIT, LEAST = 700, 40_000  # of the made-up trainings


class Made:
    """Trainings that are formulas of rate and batch, made in order; their settings are those of real ones."""

    def __init__(self, best_rate, times=lambda config: 1):  # what other settings multiply the samples by
        self.best_rate, self.times, self.asked, self.ran = best_rate, times, [], []

    def together(self, function, *columns):
        return list(map(function, *columns))

    def run(self, script, name, **settings):
        assert script == "landscape.py" and settings["weights"]
        self.ran.append(settings["measure"])
        return {"name": name, "seed": 0}

    def train(self, name, **settings):
        self.asked.append((name, settings))
        workers = settings.pop("workers", 1)
        config = train_cifar.parse([str(word) for word in option_arguments(settings)])  # refuses what is no option
        arm, steps = settle(config, config.train_samples // config.global_batch, workers)
        rate = arm.rate(config.global_batch, config.learning_rate)
        batch = config.global_batch
        usual = rate * 0.1 / (1 - config.momentum) if config.momentum else rate  # what it is worth with momentum 0.9
        off = abs(math.log2(usual / self.best_rate(name, batch)))
        needs = LEAST * (1 + batch / B_CRIT) * (1 + 0.3 * off) * self.times(config)
        most = steps * batch
        reached = config.target_accuracy is not None and needs <= most
        return {
            "id": f"run-{len(self.asked)}",
            "name": name,
            "learning_rate": rate,
            "seed": config.seed,
            "config": vars(config),
            "global_batch": batch,
            "samples": batch * math.ceil(min(needs, most) / batch),
            "steps": math.ceil(min(needs, most) / batch),
            "history": [
                {"step": needs / batch, "samples": needs, "test_accuracy": config.target_accuracy if reached else 0.1}
                | {"noise_scale": 500.0, "gradient_sq": 0.1, "variance": 50.0}
            ],
            "stopped_by": "target" if reached else "steps",
            "test_accuracy": 0.1 if off > 6 else 0.7 - 0.05 * off,
            "diverged": False,
        }


def test_grid_grows_until_best_rate_is_inside():
    for best in (0.003, 0.05, 0.2, 5.0):
        grid = Search(0.05, lambda rate, best=best: abs(math.log2(rate / best)), 30)
        found = grid.best()
        assert abs(math.log2(found / best)) <= 0.5
        assert min(grid.tried) < found < max(grid.tried)
        assert len(grid.tried) <= 4 + abs(math.log2(best / 0.05))
    for works in (lambda rate: rate < 0.002, lambda rate: rate > 1):
        assert works(Search(0.05, lambda rate, works=works: 1.0 if works(rate) else math.inf, 20).best())


def test_arms_are_tuned_on_validation_images_and_other_seeds():
    made = Made(lambda name, batch: 0.1 * math.sqrt(batch / 64))
    rates, results = convergence.tune_arms(made, SIZE)
    assert set(rates) == set(TUNED) and len(results) == len(made.asked)
    for arm, rate in rates.items():
        tried = {settings["learning_rate"] for name, settings in made.asked if name == arm}
        assert min(tried) < rate < max(tried)
        assert {settings["seed"] for name, settings in made.asked if name == arm} == set(TUNING)
    assert {settings["held_out"] for _, settings in made.asked} == {"validation"}
    assert {settings["train_samples"] for _, settings in made.asked} == {45_056}

    tuning = len(made.asked)
    judged = convergence.judge_arms(made, SIZE, rates)
    asked = made.asked[tuning:]
    assert {settings["seed"] for _, settings in asked} == set(JUDGED) and not set(JUDGED) & set(TUNING)
    assert all("held_out" not in settings and settings["train_samples"] == 45_056 for _, settings in asked)
    names = {result["name"] for result in judged}
    assert len(judged) == len(names) * len(JUDGED) and set(TUNED) < names
    peaks = {result["name"]: result["learning_rate"] for result in judged}
    base = peaks["small batch + BN"]
    assert peaks["+ linear scaling"] == peaks["+ linear scaling, warm-up"] == pytest.approx(16 * base)
    assert peaks["+ square-root scaling, warm-up"] == pytest.approx(4 * base)
    assert peaks["large batch + BN, same rate"] == base

    made.asked.clear()
    again = convergence.arms_again(made, SIZE, rates | {"small batch + BN": 0.1})
    warm = [settings for name, settings in made.asked if name == "batch 64 with warm-up"]
    assert {(one["warmup_start"], one["warmup_epochs"], one["global_batch"]) for one in warm} == {(1 / 16, 1, 64)}
    assert [result["seed"] for result in again if result["role"] == "judged"] == [
        s for s in SIZE.again for _ in range(5)
    ]

    made.asked.clear()
    convergence.in_both_precisions(made, SIZE, rates)
    for (one, first), (other, second) in zip(made.asked[::2], made.asked[1::2], strict=True):
        assert (one, other) == tuple(f"{one.split(',')[0]}, {each}" for each in convergence.BOTH)
        assert first | {"precision": "bfloat16"} == second and first["precision"] == "float32"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_sweep_tunes_rates_and_evaluates_on_other_seeds(optimizer):
    made = Made(lambda name, batch: 0.02 * (batch / 32) ** 0.7)
    results = sweeps.sweep(made, SIZE, optimizer)
    for batch in SIZE.batches:
        mine = [result for result in results if result["global_batch"] == batch]
        judged = [result for result in mine if result["role"] == "judged"]
        tuning = [result for result in mine if result["role"] == "tuning"]
        (rate,) = {result["learning_rate"] for result in judged}
        assert [result["seed"] for result in judged] == [0, 1, 2] and {r["seed"] for r in tuning} == {100}
        assert all(result["stopped_by"] == "target" for result in judged)
        tried = [result["learning_rate"] for result in tuning]
        assert min(tried) < rate < max(tried) and abs(math.log2(rate / (0.02 * (batch / 32) ** 0.7))) <= 0.5
        # Runs that can't win are stopped, and nothing else is.
        best = min(r["samples"] for r in tuning if r["stopped_by"] == "target")
        for result in tuning:
            if result["stopped_by"] != "target":
                assert result["samples"] >= PRUNE * best - batch


def test_record_is_rounded_and_parallel_runs_have_no_times():
    times = {"images_per_s": 1200.0, "seconds": 3.0}
    kept = compact({"a": 0.123456789, "b": 1234567, "start_s": {}, **times, "history": [{"x": 1e-9 / 3, **times}]})
    nothing = {"images_per_s": None, "seconds": None}
    assert kept == {"a": 0.123457, "b": 1234567, **nothing, "history": [{"x": 3.33333e-10, **nothing}]}
