"""Settings of a training, from its options and its recipe."""

from argparse import Namespace

import pytest

from course.training.recipes import OPTIMIZERS, SettingError
from course.training.settings import Settings

OF_OPTIMIZERS = {name for each in OPTIMIZERS.values() for name in each.fits}


def settings_of(steps_per_epoch=9, ranks=2, **given):
    """Return the settings for some options of `train_cifar.py`; the others have their defaults."""
    not_given = ("steps", "optimizer", "learning_rate", "warmup_epochs", "ghost_batch", *OF_OPTIMIZERS)
    defaults = {"recipe": "warmup", "epochs": 8.0, "global_batch": 64, "backward_passes_per_step": 1}
    config = Namespace(**{**dict.fromkeys(not_given), **defaults, "weight_decay": 0.0, **given})
    return Settings.of(config, steps_per_epoch, ranks)


def test_recipe_fills_in_missing_options():
    settings = settings_of()
    assert (settings.norm, settings.lr_rule, settings.total_steps, settings.epochs_in_all) == ("batch", "linear", 72, 8)
    assert (settings.optimizer, settings.learning_rate) == ("sgd", OPTIMIZERS["sgd"].base_rate)
    short = settings_of(recipe="lamb", epochs=0.5)
    assert (short.total_steps, short.learning_rate) == (4, OPTIMIZERS["lamb"].base_rate)
    ghosts = settings_of(global_batch=1024, ghost_batch=32)
    assert (ghosts.backward_passes_per_step, ghosts.ghost_batch, ghosts.per_rank_batch) == (16, 32, 512)


def test_an_option_outweighs_the_recipe():
    settings = settings_of(optimizer="adam", warmup_epochs=0.0, learning_rate=0.5, steps=7)
    assert (settings.optimizer, settings.warmup_epochs, settings.norm) == ("adam", 0, "batch")
    assert (settings.total_steps, settings.learning_rate) == (7, 0.5)


def test_a_short_training_warms_up_for_half_of_it_at_most():
    lengths = ({"epochs": 8}, {"epochs": 2}, {"steps": 4})
    assert [settings_of(10, 1, **length).warmup_epochs for length in lengths] == [2, 1, 0.2]


def test_conflicting_options_are_refused():
    for given, words in (
        ({"bias_rate": 0.1}, "--bias-rate is an option of lars; the optimizer is sgd"),
        ({"recipe": "lamb", "momentum": 0.5}, "sgd and lars"),
        ({"global_batch": 1024, "ghost_batch": 48}, "ghost batch of 48 does not divide a rank's 512 samples"),
    ):
        with pytest.raises(SettingError, match=words):
            settings_of(**given)


def test_settings_are_fixed():
    with pytest.raises(AttributeError, match="recipe"):
        settings_of().recipe = "base"


def test_the_optimizer_gets_its_own_options_only():
    given = {"momentum": 0.5, "weight_decay": 0.1}
    assert settings_of(**given).of_optimizer() == given
    assert settings_of(optimizer="lamb").of_optimizer() == {"weight_decay": 0.0}
