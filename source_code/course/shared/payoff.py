"""From which size of a model on several ranks are faster than one: as measured, and as predicted."""

import math
from dataclasses import dataclass

from course.shared import cost


@dataclass(frozen=True)
class Payoff:
    """Measured and predicted time of a step over the size of the model."""

    ranks: int  # of the second run; the first has one
    bytes: tuple[int, ...]  # of the gradient, growing
    one_s: tuple[float, ...]  # a step of the whole global batch on one rank, median
    many_s: tuple[float, ...]  # on `ranks`
    work_s: tuple[float, ...]  # one rank's part of the batch, measured on one rank alone: input, computation and update
    communication_s: tuple[float, ...]  # measured on `ranks`, without waiting
    fitted: tuple[bool, ...]  # whether alpha and beta were fitted to that size; the others test the prediction
    alpha_s: float
    beta_s_per_byte: float

    @property
    def predicted_s(self):
        """Time of a step on `ranks`, from one rank's work and the fitted communication."""
        return tuple(
            work + self.alpha_s + self.beta_s_per_byte * size
            for work, size in zip(self.work_s, self.bytes, strict=True)
        )

    @property
    def measured_crossing_bytes(self):
        """From which size on several ranks were faster; None where they never became so."""
        return self._crossing(self.many_s)

    @property
    def predicted_crossing_bytes(self):
        """From which size on several ranks should be faster; None where they never become so."""
        return self._crossing(self.predicted_s)

    def _crossing(self, many_s):
        found = cost.crossing(self.bytes, [many / one for one, many in zip(self.one_s, many_s, strict=True)])
        return None if math.isinf(found) else max(found, self.bytes[0])

    @property
    def test_error(self):
        """Largest relative error of the prediction among the sizes that it was not fitted to."""
        return max(
            abs(predicted / measured - 1)
            for predicted, measured, fitted in zip(self.predicted_s, self.many_s, self.fitted, strict=True)
            if not fitted
        )

    @property
    def sentence(self):
        def where(crossing):
            if crossing is None:
                return f"{self.ranks} ranks are never faster than one"
            if crossing <= self.bytes[0]:
                return f"{self.ranks} ranks are faster at every size"
            return f"{self.ranks} ranks are faster from {crossing:,.0f} bytes on"

        return (
            f"measured: {where(self.measured_crossing_bytes)}; predicted: "
            f"{where(self.predicted_crossing_bytes)}. At the sizes that it was not fitted to, "
            f"the prediction is off by at most {self.test_error:.0%}"
        )
