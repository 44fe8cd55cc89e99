import pytest

from ddl.recipes import BASE_RATES, RECIPES, REFERENCE_BATCH, Recipe, SettingError, micro_batch, recipe


def test_each_recipe_changes_exactly_one_thing_in_its_parent():
    changed = {name: list(arm.changes()) for name, arm in RECIPES.items()}
    assert changed == {
        "base": [],
        "batch_norm": ["norm"],
        "scale_lr": ["lr_rule"],
        "warmup": ["warmup_epochs"],
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
    with pytest.raises(SettingError, match="'warm'.*base, batch_norm, scale_lr, warmup, lamb, lars"):
        recipe("warm")


@pytest.mark.parametrize("field", [{"norm": "layer"}, {"lr_rule": "cubic"}, {"optimizer": "adagrad"}])
def test_a_recipe_of_something_unknown_is_refused(field):
    (name, value), = field.items()
    with pytest.raises(SettingError, match=f"{name} is '{value}'"):
        Recipe("new", **field)
    with pytest.raises(SettingError, match="-1"):
        Recipe("new", warmup_epochs=-1)


def test_the_linear_rule_multiplies_the_rate_with_the_batch():
    assert recipe("base").rate(1024, 0.1) == 0.1
    assert recipe("scale_lr").rate(1024, 0.1) == pytest.approx(1.6)
    for arm in RECIPES.values():
        rate = BASE_RATES[arm.optimizer]
        assert arm.rate(REFERENCE_BATCH, rate) == rate


@pytest.mark.parametrize("batch, ranks, passes, nearest", [
    (65, 2, 1, 64), (63, 2, 1, 64), (100, 3, 1, 99), (1, 2, 1, 2), (0, 2, 1, 2),
    (64, 2, 3, 66), (1000, 8, 4, 992),
])
def test_an_indivisible_batch_is_refused_with_the_nearest_that_divides(batch, ranks, passes, nearest):
    with pytest.raises(SettingError, match=f"nearest that can is {nearest}$"):
        micro_batch(batch, ranks, passes)
    assert micro_batch(nearest, ranks, passes) * ranks * passes == nearest


def test_passes_divide_a_ranks_batch():
    assert micro_batch(1024, 2) == 512
    assert micro_batch(1024, 2, 4) == 128
    with pytest.raises(SettingError, match="at least one"):
        micro_batch(64, 2, 0)
