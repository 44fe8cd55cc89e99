"""The experiments of lesson 4, as they are planned: with trainings that are formulas."""

import math
from dataclasses import replace

import pytest

pytest.importorskip("horovod.tensorflow")

import challenge
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


def test_arms_of_the_challenge_get_the_best_of_grids_that_grow_on_public_pictures():
    class Public(challenge.Scored):
        def __init__(self):
            pass

        def accuracies(self, arms, seeds, workers=1):
            peak, momentum = (arms[0].capitals[name] for name in ("MUON_PEAK", "MOMENTUM"))
            reached = 0.7 - 0.01 * abs(math.log2(peak / 0.56)) - abs(momentum - 0.925)
            return [{"public_accuracy": reached, "private_accuracy": peak, "seed": seeds[0]}]

    arm, results = Public().tune(challenge.ONE_PASS[1], 1000)
    assert [(result["rate"], result["rest"]) for result in results] == [
        *((rate, 1) for rate in (1, 2, 0.5, 4, 8)),
        *((4, rest) for rest in (2, 0.5, 0.25)),
    ]
    assert not any("private_accuracy" in result for result in results)
    assert arm.capitals == {
        **challenge.ONE_PASS[1].capitals,
        "PEAK": 3.0,
        "MUON_PEAK": 0.28,
        "MOMENTUM": 0.925,
        "MUON_MOMENTUM": 0.8,
    }
    assert challenge.tuned(arm, 1, 4).capitals["MUON_MOMENTUM"] == 0
    assert "MUON_MOMENTUM = 0.8\n" in arm.source() and "MUON = False\n" in arm.source()


def test_rates_at_which_nothing_is_learned_are_never_the_best():
    # Far above what works, as a large batch without batch norm is.
    made = Made(lambda name, batch: 1e-3)
    rates, _ = convergence.tune_arms(made, SIZE)
    assert rates["large batch"] == pytest.approx(1e-3, rel=0.5)


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


def test_where_all_is_tuned_the_best_of_three_settings_on_three_seeds_is_judged_on_other_pictures():
    def times(config):  # the warm-up and more momentum help, on the usual seed too little momentum as well
        worse = 1.0 if config.warmup_epochs else 1.1
        return worse * {None: 1, 0.8: 0.97 if config.seed == 100 else 1.3, 0.95: 0.95}.get(config.momentum, 1.2)

    made = Made(lambda name, batch: 0.02 * (batch / 32) ** 0.7, times)
    rates = dict.fromkeys(SIZE.few_batches, 0.05)
    results = sweeps.tuned_sweep(made, SIZE, "SGD with momentum", rates)
    for batch in SIZE.few_batches:
        mine = [result for result in results if result["global_batch"] == batch]
        judged = [result["config"] for result in mine if result["role"] == "judged"]
        tuning = [result["config"] for result in mine if result["role"] == "tuning"]
        (found,) = {(one["learning_rate"], one["momentum"], one["warmup_epochs"]) for one in judged}
        assert found[1] == 0.95 and found[2] > 0 and abs(math.log2(2 * found[0] / (0.02 * (batch / 32) ** 0.7))) <= 0.51
        assert [one["seed"] for one in judged] == [*JUDGED] and {one["held_out"] for one in judged} == {"test"}
        assert {one["held_out"] for one in tuning} == {"validation"} and not {one["seed"] for one in tuning} & {*JUDGED}
        again = [one for one in tuning if one["seed"] != 100]
        assert len(again) == 6 and all(one["warmup_epochs"] for one in again)


def test_most_accurate_rate_is_used_if_target_is_missed():
    late = replace(SIZE, most_epochs=0.9 * LEAST * (1 + 4096 / B_CRIT) / SIZE.samples, batches=(4096,))
    made = Made(lambda name, batch: 1.0)
    results = sweeps.sweep(made, late, "plain SGD")
    tuning = [result for result in results if result["role"] == "tuning"]
    assert {result["stopped_by"] for result in tuning} == {"steps"}
    tried = [result["learning_rate"] for result in tuning]
    judged = [result for result in results if result["role"] == "judged"]
    (rate,) = {result["learning_rate"] for result in judged}
    assert min(tried) < rate < max(tried) and abs(math.log2(rate)) <= 0.5 and len(tried) < 10
    assert {result["stopped_by"] for result in judged} == {"target"}


def test_gap_search_has_equal_epochs_steps_and_loss():
    made = Made(lambda name, batch: 0.1 * math.sqrt(batch / 64))
    results = convergence.generalisation(made, SIZE)
    judged = [result for result in results if result["role"] == "judged"]
    steps = {}
    for name, settings in made.asked:
        assert settings["no_augment"] and settings["ghost_batch"] == 32
        if "target_loss" in settings:
            assert settings["schedule"] == "constant"
        else:
            steps[name] = settings["epochs"] * (SIZE.few // settings["global_batch"])
    assert steps["small batch"] == steps["large batch, equal steps"] == 16 * steps["large batch"]
    assert len(judged) == 7 * len(JUDGED)
    before = {name: settings for name, settings in made.asked if settings["seed"] == 0}
    rates = {
        settings["global_batch"]: settings["learning_rate"] for name, settings in before.items() if "low" not in name
    }
    made.asked.clear()
    convergence.to_a_loss_again(made, SIZE, rates)
    assert len(made.asked) == 40 and not {settings["seed"] for _, settings in made.asked} & {*JUDGED, *TUNING}
    for name, settings in made.asked:
        assert settings == before[name] | {"seed": settings["seed"]}


def test_sharpness_is_measured_at_one_loss_in_settings_of_six_seeds_that_had_no_part_in_choosing_rates():
    made = Made(lambda name, batch: 1.0)
    results = convergence.sharpness(made, SIZE, {64: 0.1, 1024: 0.4})
    asked = [settings for _, settings in made.asked]
    for batch, highest in ((64, 0.1), (256, 0.2), (1024, 0.4)):
        rates = sorted({each["learning_rate"] for each in asked if each["global_batch"] == batch}, reverse=True)
        assert rates == pytest.approx([highest, highest / 2, highest / 4, highest / 8])
    assert {each["target_loss"] for each in asked} == {SIZE.matched} and all(each["keep_weights"] for each in asked)
    assert len(results) == len(made.ran) == 72 and {"eigenvalue", "invariant"} <= set(made.ran[0])
    assert not {each["seed"] for each in asked} & {*JUDGED, *TUNING}


def test_biases_get_their_part_of_the_rate_and_then_the_rate_is_chosen_again():
    made = Made(lambda name, batch: 25.0)  # 16 times the rate at batch 64
    results = convergence.lars_biases(made, SIZE, {"LARS": 0.1, "LARS, trust 0.001": 0.8})
    tuning, judged = ([each for each in results if each["role"] == role] for role in ("tuning", "judged"))
    assert {each["config"]["held_out"] for each in tuning} == {"validation"}
    tried = list(dict.fromkeys((each["config"]["bias_rate"], each["config"]["learning_rate"]) for each in tuning))
    assert tried == [(0.25, 0.8), (0.5, 0.8), (0.125, 0.8), (0.25, 1.6), (0.25, 0.4), (0.25, 3.2)]
    assert len(tuning) == len(TUNING) * len(tried)
    chosen = {(each["name"], each["config"]["bias_rate"], each["config"]["learning_rate"]) for each in judged}
    assert chosen == {("LARS", None, 0.1), ("LARS, trust 0.001", None, 0.8), (convergence.BIASES_APART, 0.25, 1.6)}
    assert not {each["seed"] for each in results} & {*JUDGED}


def test_ghost_batches_differ_only_in_norm():
    made = Made(lambda name, batch: 1.0)
    results = convergence.ghost_batches(made, SIZE, 0.05)
    differ = {key for _, one in made.asked for key in one if any(one.get(key) != two.get(key) for _, two in made.asked)}
    assert differ == {"ghost_batch", "seed", "sync_bn"} and len(results) == 5 * len(JUDGED)
    made = Made(lambda name, batch: 1.0)
    results = convergence.noise_runs(made, SIZE, 256, 0.2)
    assert all(settings["keep_weights"] and settings["noise_scale"] for _, settings in made.asked)
    assert made.ran == [["noise"]] * len(results) and len(results) == 3 * len(SIZE.frozen)


def test_record_is_rounded_and_parallel_runs_have_no_times():
    times = {"images_per_s": 1200.0, "seconds": 3.0}
    kept = compact({"a": 0.123456789, "b": 1234567, "start_s": {}, **times, "history": [{"x": 1e-9 / 3, **times}]})
    nothing = {"images_per_s": None, "seconds": None}
    assert kept == {"a": 0.123457, "b": 1234567, **nothing, "history": [{"x": 3.33333e-10, **nothing}]}
