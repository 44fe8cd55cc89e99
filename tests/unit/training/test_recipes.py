from argparse import Namespace
from dataclasses import asdict

import pytest

from course.training.recipes import BASE_RATES, FITS, RECIPES, REFERENCE_BATCH, SettingError, micro_batch, settle


def test_each_recipe_changes_exactly_one_thing_in_its_parent():
    changed = {}
    for name, arm in RECIPES.items():
        parent = asdict(RECIPES[arm.parent or name])
        different = [key for key in asdict(arm) if parent[key] != getattr(arm, key) and key not in ("name", "parent")]
        changed[name] = (arm.parent, *different)
    assert changed == {
        "base": (None,),
        "batch_norm": ("base", "norm"),
        "scale_lr": ("batch_norm", "lr_rule"),
        "warmup": ("scale_lr", "warmup_epochs"),
        "sqrt_lr": ("warmup", "lr_rule"),
        "lamb": ("warmup", "optimizer"),
        "lars": ("warmup", "optimizer"),
    }


def test_scaling_rules_are_linear_or_square_root():
    rates = {name: RECIPES[name].rate(1024, 0.1) for name in ("base", "scale_lr", "sqrt_lr")}
    assert rates == pytest.approx({"base": 0.1, "scale_lr": 1.6, "sqrt_lr": 0.4})
    for arm in RECIPES.values():
        rate = BASE_RATES[arm.optimizer]
        assert arm.rate(REFERENCE_BATCH, rate) == rate


def test_ranks_and_passes_must_divide_batch():
    assert (micro_batch(1024, 2), micro_batch(1024, 2, 4)) == (512, 128)
    for batch, ranks, passes, nearest in (
        (65, 2, 1, 64), (63, 2, 1, 64), (100, 3, 1, 99), (1, 2, 1, 2), (64, 2, 3, 66), (1000, 8, 4, 992),
    ):  # fmt: skip
        with pytest.raises(SettingError, match=f"nearest that can is {nearest}$"):
            micro_batch(batch, ranks, passes)
        assert micro_batch(nearest, ranks, passes) * ranks * passes == nearest


def options(**given):
    names = ("steps", "target_accuracy", "optimizer", "learning_rate", "warmup_epochs", "ghost_batch", *FITS)
    open_ones = dict.fromkeys(names)
    return Namespace(
        **{**open_ones, "recipe": "warmup", "epochs": 8.0, "global_batch": 64, "backward_passes_per_step": 1, **given}
    )


def test_recipe_fills_in_missing_options():
    config = options()
    arm, steps = settle(config, steps_per_epoch=9, ranks=2)
    assert arm == RECIPES["warmup"] and steps == 72
    assert (config.optimizer, config.learning_rate) == ("sgd", BASE_RATES["sgd"])
    config = options(recipe="lamb", epochs=0.5)
    assert settle(config, 9, 2)[1] == 4
    assert config.learning_rate == BASE_RATES["lamb"]
    config = options(global_batch=1024, ghost_batch=32)
    settle(config, 9, 2)
    assert config.backward_passes_per_step == 16


def test_an_option_outweighs_the_recipe():
    config = options(optimizer="adam", warmup_epochs=0.0, learning_rate=0.5, steps=7)
    arm, steps = settle(config, 9, 2)
    assert (arm.optimizer, arm.warmup_epochs, arm.norm, steps) == ("adam", 0, "batch", 7)
    assert config.learning_rate == 0.5


def test_a_short_training_warms_up_for_half_of_it_at_most():
    assert settle(options(epochs=8), 10, 1)[0].warmup_epochs == 2
    assert settle(options(epochs=2), 10, 1)[0].warmup_epochs == 1
    assert settle(options(steps=4), 10, 1)[0].warmup_epochs == 0.2


def test_conflicting_options_are_refused():
    for given, words in (
        ({"bias_rate": 0.1}, "--bias-rate is an option of lars; the optimizer is sgd"),
        ({"recipe": "lamb", "momentum": 0.5}, "sgd and lars"),
        ({"global_batch": 1024, "ghost_batch": 48}, "ghost batch of 48 does not divide a rank's 512 samples"),
    ):
        with pytest.raises(SettingError, match=words):
            settle(options(**given), 9, 2)
