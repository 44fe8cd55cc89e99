"""The learning rate as a pure function of the epoch."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from course.training.recipes import SettingError, scaled

DECAYS = ("constant", "cosine", "step")

# Goyal et al. 2017 (section 5.1) divide the rate by 10 at epochs 30, 60 and 80 of 90.
STEP_AT = (1 / 3, 2 / 3, 8 / 9)


@dataclass(frozen=True)
class Schedule:
    """A linear warm-up from `start` to `peak`, then a decay, over `epochs` epochs.

    With a warm-up the rate begins at `start`, the rate before scaling (Goyal et al. 2017, section 2.2, "gradual
    warmup"). The decay "cosine" runs from the end of the warm-up to 0 at the end of the training (Loshchilov and Hutter
    2017, equation 5, one cycle); "step" divides by 10 after 1/3, 2/3 and 8/9 of it; "constant" keeps the rate.
    """

    peak: float
    epochs: float
    start: float = 0.0
    warmup_epochs: float = 0.0
    decay: str = "constant"

    def __post_init__(self):
        if self.decay not in DECAYS:
            raise SettingError(f"there is no schedule {self.decay!r}; the schedules are: {', '.join(DECAYS)}")
        if self.peak < 0 or self.start < 0:
            raise SettingError(f"learning rates must not be negative: {self.start}, {self.peak}")
        if not 0 <= self.warmup_epochs <= self.epochs:
            raise SettingError(
                f"a warm-up of {self.warmup_epochs:g} epochs does not fit into a training of "
                f"{self.epochs:g}: train for longer, or give a shorter --warmup-epochs"
            )

    def __call__(self, epoch):
        """Return the learning rate at `epoch`, which may be fractional."""
        if epoch < self.warmup_epochs:
            return self.start + (self.peak - self.start) * epoch / self.warmup_epochs
        if self.decay == "cosine":
            length = self.epochs - self.warmup_epochs
            done = min(1.0, (epoch - self.warmup_epochs) / length) if length else 0.0
            return self.peak * (1 + math.cos(math.pi * done)) / 2
        if self.decay == "step":
            return self.peak * 0.1 ** sum(epoch >= part * self.epochs for part in STEP_AT)
        return self.peak


@dataclass(frozen=True)
class GivenRates:
    """The learning rates of a file, one for each step of `epochs` epochs."""

    rates: tuple
    epochs: float
    warmup_epochs: float = 0.0
    decay: str = "given rates"

    @property
    def peak(self):
        return max(self.rates)

    def __call__(self, epoch):
        return self.rates[min(round(epoch / self.epochs * len(self.rates)), len(self.rates) - 1)]


def read_rates(file, steps, epochs):
    """Return the `GivenRates` of a JSON file. Raises SettingError unless it has one number >= 0 for each step."""
    try:
        rates = json.loads(Path(file).read_text())
    except (OSError, ValueError) as error:
        raise SettingError(f"--rates {file} cannot be read: {error}") from error
    if not (isinstance(rates, list) and all(isinstance(rate, (int, float)) and 0 <= rate < math.inf for rate in rates)):
        raise SettingError(f"--rates {file} must have a list of numbers >= 0")
    if len(rates) != steps:
        raise SettingError(f"--rates {file} has {len(rates)} learning rates, and the training has {steps} steps")
    return GivenRates(tuple(rates), epochs)


def rate_at(step: float, steps: float, climb: float, base: float, batch: int, rule: str) -> float:
    """Return the learning rate at a step: a warm-up from `base` to its scaled value, then half a cosine wave to 0.

    The peak is `base`, the rate at a batch of 64, scaled by `rule`: "linear" or "sqrt".
    """
    peak = scaled(base, batch, rule)
    return Schedule(peak, steps, base, climb, "cosine")(step)


def schedule_of(settings):
    """Return the schedule for a training's `Settings`.

    The warm-up starts at the unscaled rate, or at the share ``warmup_start`` of the peak.
    """
    epochs = settings.epochs_in_all
    if settings.rates:
        return read_rates(settings.rates, settings.total_steps, epochs)
    peak = scaled(settings.learning_rate, settings.global_batch, settings.lr_rule)
    start = settings.learning_rate if settings.warmup_start is None else settings.warmup_start * peak
    return Schedule(peak, epochs, start, settings.warmup_epochs, settings.schedule)
