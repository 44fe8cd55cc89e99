from argparse import Namespace

import pytest

from ddl.training.recipes import (
    BASE_RATES,
    FITS,
    RECIPES,
    REFERENCE_BATCH,
    Recipe,
    SettingError,
    micro_batch,
    recipe,
    settle,
)


def test_each_recipe_changes_exactly_one_thing_in_its_parent():
    changed = {name: list(arm.changes()) for name, arm in RECIPES.items()}
    assert changed == {
        "base": [],
        "batch_norm": ["norm"],
        "scale_lr": ["lr_rule"],
        "warmup": ["warmup_epochs"],
        "sqrt_lr": ["lr_rule"],
        "lamb": ["optimizer"],
        "lars": ["optimizer"],
    }


def test_every_chain_of_parents_ends_at_the_base():
    for arm in RECIPES.values():
        seen = []
        while arm.parent:
            assert arm.name not in seen
            seen.append(arm.name)
            arm = RECIPES[arm.parent]
        assert arm.name == "base"


def test_an_unknown_recipe_is_refused_with_the_list_of_recipes():
    valid = "base, batch_norm, scale_lr, warmup, sqrt_lr, lamb, lars"
    with pytest.raises(SettingError, match=f"'warm'.*{valid}"):
        recipe("warm")


@pytest.mark.parametrize("name, value", [("norm", "layer"), ("lr_rule", "cubic"), ("optimizer", "adagrad")])
def test_a_recipe_of_something_unknown_is_refused(name, value):
    with pytest.raises(SettingError, match=f"{name} is '{value}'"):
        Recipe("new", **{name: value})


def test_a_recipe_with_a_negative_warm_up_is_refused():
    with pytest.raises(SettingError, match="-1"):
        Recipe("new", warmup_epochs=-1)


def test_a_rule_multiplies_the_rate_with_the_batch_or_its_square_root():
    assert recipe("sqrt_lr").rate(1024, 0.1) == pytest.approx(0.4)
    assert recipe("base").rate(1024, 0.1) == 0.1
    assert recipe("scale_lr").rate(1024, 0.1) == pytest.approx(1.6)
    for arm in RECIPES.values():
        rate = BASE_RATES[arm.optimizer]
        assert arm.rate(REFERENCE_BATCH, rate) == rate


@pytest.mark.parametrize(
    "batch, ranks, passes, nearest",
    [(65, 2, 1, 64), (63, 2, 1, 64), (100, 3, 1, 99), (1, 2, 1, 2), (0, 2, 1, 2), (64, 2, 3, 66), (1000, 8, 4, 992)],
)
def test_an_indivisible_batch_is_refused_with_the_nearest(batch, ranks, passes, nearest):
    with pytest.raises(SettingError, match=f"nearest that can is {nearest}$"):
        micro_batch(batch, ranks, passes)
    assert micro_batch(nearest, ranks, passes) * ranks * passes == nearest


def test_passes_divide_a_ranks_batch():
    assert micro_batch(1024, 2) == 512
    assert micro_batch(1024, 2, 4) == 128
    with pytest.raises(SettingError, match="at least one"):
        micro_batch(64, 2, 0)


def test_a_ghost_batch_decides_the_passes():
    config = options(global_batch=1024, ghost_batch=32)
    settle(config, 9, 2)
    assert config.backward_passes_per_step == 16
    with pytest.raises(SettingError, match="ghost batch of 48 does not divide a rank's 512 samples"):
        settle(options(global_batch=1024, ghost_batch=48), 9, 2)


@pytest.mark.parametrize(
    "recipe, given, said",
    [("warmup", {"trust": 0.1}, "--trust goes with lars, not with sgd"), ("lamb", {"momentum": 0.5}, "sgd and lars")],
)
def test_an_option_of_another_optimizer_is_refused(recipe, given, said):
    with pytest.raises(SettingError, match=said):
        settle(options(recipe=recipe, **given), 9, 2)


def options(**given):
    names = ("steps", "target_accuracy", "optimizer", "learning_rate", "warmup_epochs", "ghost_batch", *FITS)
    open_ones = dict.fromkeys(names)
    return Namespace(
        **{**open_ones, "recipe": "warmup", "epochs": 8.0, "global_batch": 64, "backward_passes_per_step": 1, **given}
    )


def test_the_recipe_fills_in_what_is_left_open():
    config = options()
    arm, steps = settle(config, steps_per_epoch=9, ranks=2)
    assert arm == recipe("warmup") and steps == 72
    assert (config.optimizer, config.learning_rate) == ("sgd", BASE_RATES["sgd"])
    config = options(recipe="lamb", epochs=0.5)
    assert settle(config, 9, 2)[1] == 4
    assert config.learning_rate == BASE_RATES["lamb"]


def test_an_option_outweighs_the_recipe():
    config = options(optimizer="adam", warmup_epochs=0.0, learning_rate=0.5, steps=7)
    arm, steps = settle(config, 9, 2)
    assert (arm.optimizer, arm.warmup_epochs, arm.norm, steps) == ("adam", 0, "batch", 7)
    assert config.learning_rate == 0.5


def test_a_short_training_warms_up_for_half_of_it_at_most():
    assert settle(options(epochs=8), 10, 1)[0].warmup_epochs == 2
    assert settle(options(epochs=2), 10, 1)[0].warmup_epochs == 1
    assert settle(options(steps=4), 10, 1)[0].warmup_epochs == 0.2


@pytest.mark.parametrize("given", [{"steps": 0}, {"epochs": -1.0}, {"learning_rate": 0.0}, {"target_accuracy": 0.0}])
def test_what_must_be_positive_is_checked(given):
    (name,) = given
    with pytest.raises(SettingError, match=f"--{name.replace('_', '-')}"):
        settle(options(**given), 9, 2)
