"""A training's settings: what the command line asks for, and what the recipe gives where it says nothing."""

from types import SimpleNamespace

from course.training.recipes import OPTIMIZERS, RECIPES, SettingError, micro_batch, passes_for


class Settings(SimpleNamespace):
    """Every setting of a training, fixed: an attribute for each option of ``train_cifar.py`` and field of a recipe.

    Besides these, `total_steps` and `steps_per_epoch`; `per_rank_batch`, the samples of a rank's part of a step; and
    `ghost_batch`, the samples of one backward pass, which batch norm normalizes over unless it is synchronous.
    """

    # The usual settings of a step; a command line may change them.
    backward_passes_per_step = 1
    no_augment = fp16_compression = noise_scale = False

    def __setattr__(self, name, value):
        raise AttributeError(f"settings are fixed: {name} cannot be changed")

    @classmethod
    def of(cls, config, steps_per_epoch: int, ranks: int) -> "Settings":
        """Return the settings for a parsed command line; SettingError if some of them exclude each other."""
        recipe, given = RECIPES[config.recipe], vars(config)
        passes = config.backward_passes_per_step
        if config.ghost_batch is not None:
            passes = passes_for(config.ghost_batch, config.global_batch, ranks)
        steps = config.steps or max(1, round(config.epochs * steps_per_epoch))
        optimizer = OPTIMIZERS[config.optimizer or recipe.optimizer]
        for name in {name: None for each in OPTIMIZERS.values() for name in each.fits}:
            if given.get(name) is not None and name not in optimizer.fits:
                fitting = " and ".join(each.name for each in OPTIMIZERS.values() if name in each.fits)
                option = name.replace("_", "-")
                raise SettingError(f"--{option} is an option of {fitting}; the optimizer is {optimizer.name}")
        of_recipe = {
            "norm": recipe.norm,
            "lr_rule": recipe.lr_rule,
            "optimizer": optimizer.name,
            "learning_rate": optimizer.base_rate if config.learning_rate is None else config.learning_rate,
            # In a short training, the recipe's warm-up takes at most half.
            "warmup_epochs": (
                min(recipe.warmup_epochs, steps / steps_per_epoch / 2)
                if config.warmup_epochs is None
                else config.warmup_epochs
            ),
        }
        sizes = {
            "backward_passes_per_step": passes,
            "ghost_batch": micro_batch(config.global_batch, ranks, passes),
            "per_rank_batch": config.global_batch // ranks,
            "total_steps": steps,
            "steps_per_epoch": steps_per_epoch,
        }
        return cls(**given | of_recipe | sizes)

    @property
    def epochs_in_all(self) -> float:
        """The length of the training in epochs."""
        return self.total_steps / self.steps_per_epoch

    def of_optimizer(self) -> dict:
        """Return the optimizer's weight decay, and its own options if they were given."""
        names = ("weight_decay", *OPTIMIZERS[self.optimizer].fits)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}
