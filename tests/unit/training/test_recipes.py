from dataclasses import asdict

import pytest

from course.training.recipes import RECIPES, REFERENCE_BATCH, Recipe, SettingError, micro_batch, scaled


def test_each_recipe_changes_exactly_one_thing_in_its_parent():
    changed = {}
    for name, configuration in RECIPES.items():
        parent = asdict(RECIPES[configuration.parent or name])
        different = [
            key
            for key in asdict(configuration)
            if parent[key] != getattr(configuration, key) and key not in ("name", "parent")
        ]
        changed[name] = (configuration.parent, *different)
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
    rates = {name: scaled(0.1, 1024, RECIPES[name].lr_rule) for name in ("base", "scale_lr", "sqrt_lr")}
    assert rates == pytest.approx({"base": 0.1, "scale_lr": 1.6, "sqrt_lr": 0.4})
    assert {scaled(0.1, REFERENCE_BATCH, recipe.lr_rule) for recipe in RECIPES.values()} == {0.1}


def test_recipe_needs_a_registered_optimizer():
    with pytest.raises(SettingError, match="recipe novel: there is no optimizer 'lion'; registered are: sgd, adam"):
        Recipe("novel", "warmup", optimizer="lion")


def test_ranks_and_passes_must_divide_batch():
    assert (micro_batch(1024, 2), micro_batch(1024, 2, 4)) == (512, 128)
    for batch, ranks, passes, nearest in (
        (65, 2, 1, 64), (63, 2, 1, 64), (100, 3, 1, 99), (1, 2, 1, 2), (64, 2, 3, 66), (1000, 8, 4, 992),
    ):  # fmt: skip
        with pytest.raises(SettingError, match=f"nearest that can is {nearest}$"):
            micro_batch(batch, ranks, passes)
        assert micro_batch(nearest, ranks, passes) * ranks * passes == nearest
