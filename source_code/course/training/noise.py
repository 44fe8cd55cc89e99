"""The gradient noise scale, measured from two batch sizes at once.

McCandlish, Kaplan, Amodei et al. 2018, "An Empirical Model of Large-Batch Training", appendix A.1.
"""

from course.training.recipes import SettingError

DECAY = 0.98  # of the moving averages, per step


def estimate(small_sq: float, big_sq: float, small_batch: int, big_batch: int) -> tuple[float, float]:
    """Estimate the squared true gradient and the gradient's variance from one step.

    With ``E|G_B|² = |G|² + S/B`` at two batch sizes (equation A.1), equation A.2 is

    ``|G|² ≈ (B_big |G_big|² − B_small |G_small|²) / (B_big − B_small)``

    ``S ≈ (|G_small|² − |G_big|²) / (1/B_small − 1/B_big)``

    Both are unbiased, and very noisy: a single step's ``|G|²`` is often negative.

    `small_sq` is the squared norm of a backward pass's gradient, averaged over passes and ranks, and `big_sq` the
    squared norm of the averaged gradient. `small_batch` and `big_batch` are the samples behind each.
    """
    if not 0 < small_batch < big_batch:
        raise SettingError(
            f"the noise scale compares gradients of two batch sizes, got {small_batch} and "
            f"{big_batch}: it needs two ranks or more, or two backward passes per step"
        )
    gradient_sq = (big_batch * big_sq - small_batch * small_sq) / (big_batch - small_batch)
    variance = (small_sq - big_sq) / (1 / small_batch - 1 / big_batch)
    return gradient_sq, variance


class NoiseScale:
    """The simple noise scale S / |G|², averaged over steps.

    The ratio of two averages: averaging the ratios of single steps would be biased, and their
    denominators are often negative. Both averages are exponential and corrected for their start
    at zero (Kingma and Ba 2015, section 3), which cancels in the ratio. The batches are those of `estimate`.
    """

    def __init__(self, small_batch: int, big_batch: int):
        estimate(1.0, 1.0, small_batch, big_batch)  # validates the sizes now
        self.batches = small_batch, big_batch
        self.steps = 0
        self._gradient_sq = self._variance = 0.0

    def update(self, small_sq: float, big_sq: float):
        """Add one step's squared norms (see `estimate`)."""
        gradient_sq, variance = estimate(small_sq, big_sq, *self.batches)
        self._gradient_sq += (1 - DECAY) * (gradient_sq - self._gradient_sq)
        self._variance += (1 - DECAY) * (variance - self._variance)
        self.steps += 1

    def figures(self) -> dict:
        """Return the averages so far, for a record."""
        return {"noise_scale": self.value, "gradient_sq": self.gradient_sq, "variance": self.variance}

    def state(self) -> dict:
        """Return the state for a checkpoint."""
        return dict(vars(self))

    def restore(self, state: dict | None):
        """Restore another's averages, if any; the batch sizes stay those of the current ranks."""
        vars(self).update(state or {}, batches=self.batches)

    @property
    def gradient_sq(self):
        """Moving average of the squared true gradient, or None before the first step."""
        return self._gradient_sq / (1 - DECAY**self.steps) if self.steps else None

    @property
    def variance(self):
        """Moving average of the summed variance of one sample's gradient, or None."""
        return self._variance / (1 - DECAY**self.steps) if self.steps else None

    @property
    def value(self):
        """The noise scale in samples; None while the averaged |G|² is not positive."""
        if not self.steps or self._gradient_sq <= 0:
            return None
        return self._variance / self._gradient_sq
