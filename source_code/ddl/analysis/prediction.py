"""Predict the time of a training step on many ranks from the cost of computation and communication.

A step is computation, which all ranks do at the same time, and communication: all-reduces of the gradients, whose time
`ddl.analysis.cost` models. Without overlap the two add up; with full overlap the longer one decides. The estimate lies
between, by a rule: the backward pass takes two thirds of the computation; gradients become ready evenly during it and
are averaged in B messages of equal size, each as soon as it is ready and the previous one is through. So the first
message can start when 1/B of the backward pass is done, and the last no earlier than at its end; a single message
overlaps with nothing.

Left out are the time in which ranks agree on what is ready, late input, computation slowed down by messages, other
users of the network and, on clusters that are not measured, the wait for the slowest rank. All of these make steps
longer: a measured step may well be slower than the model without overlap, which is no bound.

1 MB is 10⁶ bytes and 1 GB/s 10⁹ bytes/s; times are in seconds.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy

from ddl.analysis.efficiency import efficiency
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.records.paths import reference_dir

__all__ = ["Prediction", "points", "predict_step", "report", "slowest", "table"]

FORWARD = 1 / 3  # of the computation: a layer's backward pass takes about twice its forward pass
BYTES = 4  # of a parameter's gradient, in single precision
METRICS_BYTES = 12  # what train_cifar.py averages besides, in the gradients' message


REFERENCE = reference_dir()


@dataclass(frozen=True)
class Prediction:
    """A predicted training step."""

    ranks: int
    batch: int  # samples in a step of all ranks together
    computation_s: float  # until the slowest rank is done computing, without any exchange
    communication_s: float  # of all all-reduces of a step, one after another
    all_reduces: int  # in how many messages the gradients are averaged
    one_images_per_s: float  # what the efficiency compares with: a single rank's speed
    waiting_s: float = 0.0  # how much of `computation_s` is the others' wait for the slowest
    baseline: "Prediction | None" = None  # what the efficiency compares with instead: a rank's speed in this one

    def __post_init__(self):
        for name in ("ranks", "batch", "all_reduces"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)!r}: at least 1 is needed")
        for name in ("computation_s", "one_images_per_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name}={getattr(self, name)!r}: it must be above 0, and finite")
        if not 0 <= self.communication_s < math.inf:
            raise InputError(f"communication_s={self.communication_s!r}: a time, 0 or more")

    @property
    def seconds(self):
        """The estimate, by the module's rule."""
        forward = FORWARD * self.computation_s
        backward = self.computation_s - forward
        each = self.communication_s / self.all_reduces
        # Between the first message that is held up by the network and the last by the computation the end grows or
        # falls evenly: it is latest at one of the two.
        end = forward + max(backward + each, backward / self.all_reduces + self.communication_s)
        return min(max(end, self.full_overlap_s), self.no_overlap_s)  # rounding may step over

    @property
    def full_overlap_s(self):
        """Full overlap: the longer of computation and communication."""
        return max(self.computation_s, self.communication_s)

    @property
    def no_overlap_s(self):
        """No overlap: both, one after the other."""
        return self.computation_s + self.communication_s

    @property
    def images_per_s(self):
        """Of all ranks together."""
        return self.batch / self.seconds

    @property
    def efficiency(self):
        """Scaling efficiency of the estimate."""
        return self.efficiency_at(self.seconds)

    @property
    def efficiency_no_overlap(self):
        """Efficiency if communication follows computation, in the baseline too."""
        return self.efficiency_at(self.no_overlap_s, "no_overlap_s")

    @property
    def efficiency_full_overlap(self):
        """Efficiency if communication hides behind computation, in the baseline too."""
        return self.efficiency_at(self.full_overlap_s, "full_overlap_s")

    def efficiency_at(self, seconds: float, of_baseline="seconds"):
        """Return the scaling efficiency if a step took so many seconds.

        `of_baseline` names the baseline's time of a step, if there is one: "seconds", "no_overlap_s" or
        "full_overlap_s".
        """
        one, base = self.one_images_per_s, self.baseline
        if base:
            one = base.batch / getattr(base, of_baseline) / base.ranks
        return efficiency(self.batch / seconds, self.ranks, one)

    def __str__(self):
        return (
            f"{self.ranks} ranks: {1e3 * self.seconds:.2f} ms a step (full overlap "
            f"{1e3 * self.full_overlap_s:.2f}, none {1e3 * self.no_overlap_s:.2f}), "
            f"{self.images_per_s:,.0f} images/s, efficiency {self.efficiency:.0%}"
        )


# ---------------------------------------------------------------- from measurements


def slowest(times, ranks=None) -> float:
    """Return the mean time in seconds of the slowest of several ranks, each at its own pace.

    Each rank's time is drawn from its measured ones, independently: ``E[max] = Σ x (F(x) − F(x−))``, where F is the
    product of the ranks' distribution functions.

    `times`, shape (measured ranks, steps), are seconds of steps of ranks that did not wait for each other. Another
    number of `ranks` are each like all measured ones together.
    """
    times = numpy.sort(numpy.atleast_2d(numpy.asarray(times, float)), axis=1)
    values = numpy.sort(times.ravel())
    if ranks is None or ranks == len(times):
        below = numpy.prod([numpy.searchsorted(row, values, side="right") / len(row) for row in times], axis=0)
    else:
        below = (numpy.arange(1, len(values) + 1) / len(values)) ** ranks
    return float((values * numpy.diff(below, prepend=0.0)).sum())


def points(run) -> list[tuple[int, float]]:
    """Return (bytes, median seconds) of a run's all-reduces, measured by `bench_allreduce.py`, for `cost.fit`."""
    found = [
        (point["size_bytes"], point["seconds"]["median"])
        for point in _result(run).get("points", ())
        if point.get("operation") == "all_reduce" and point["size_bytes"]
    ]
    if not found:
        raise InputError(f"run {run.name!r} timed no all-reduce: bench_allreduce.py does")
    return found


def predict_step(run, fit=None, ranks=None, one=None) -> Prediction:
    """Predict a step of `train_cifar.py` from a run of `step_times.py` with ``model="cnn"``.

    All gradients are averaged in one message, which waits for the whole backward pass. The run gives the cost of
    computing. With several ranks, which computed side by side and exchanged nothing, this includes shared caches and
    memory and the wait for the slowest (`slowest`), but not that ranks which wait for each other compute in step. With
    a single rank it includes neither sharing nor, without neighbours, their waiting.

    `fit` is that of all-reduces; one rank needs none. `ranks` is by default the run's, or the number of ranks whose
    part of the batch it timed; with another number each rank's batch stays the same. The efficiency is relative to
    `one`, a run on one rank, by default to a rank of `run` among the others.

    Raises
    ------
    ValueError
        If the run did not measure a whole step, or there is no fit for more than one rank.
    """
    result = _result(run)
    size = (result.get("sizes") or [{}])[-1]
    if not size.get("model"):
        raise InputError(
            f'run {run.name!r} did not measure train_cifar.py\'s step: step_times.py does with model="cnn"'
        )
    each = result["per_rank_batch"]
    times = (size.get("apart") or size)["rank_steps_s"]
    many = result["ranks"] if ranks is None else ranks
    part = size.get("part")
    if result["ranks"] == 1 and part and ranks in (None, part["of"]):
        many, each, times = part["of"], each // part["of"], part["rank_steps_s"]
    if many > 1 and fit is None:
        raise InputError(
            f"{many} ranks talk: a fit of their all-reduces is needed, ddl.analysis.cost.fit(points(run), ranks)"
        )
    mean = float(numpy.mean(times))
    computation = slowest(times, many)
    communication = 0.0
    if many > 1:
        communication = float(fit(size["gradient_bytes"] + METRICS_BYTES, many))
    return Prediction(
        ranks=many,
        batch=each * many,
        computation_s=computation,
        communication_s=communication,
        all_reduces=1,
        waiting_s=computation - mean,
        one_images_per_s=_result(one)["images_per_s"] if one else each / mean,
    )


def _result(run):
    if run.result is None:
        raise InputError(f"run {run.name!r} has no result: it is {run.state}")
    return run.result


def _measured_s(run, ranks=None, batch=None):
    """Return the mean time of a step of a run, which must have these ranks and this batch."""
    result = _result(run)
    for name, wanted in (("ranks", ranks), ("global_batch", batch)):
        if wanted is not None and result[name] != wanted:
            raise InputError(f"run {run.name!r} has {name} {result[name]}, and {wanted} is what was predicted")
    return result["global_batch"] / result["images_per_s"]


def report(predictions, run) -> Table:
    """Compare one prediction, or a dictionary of them by name, with a run of as many ranks and samples.

    The run is one of `train_cifar.py`, or of `step_times.py` with its model; measured is the mean over steps without
    the warm-up. ``error`` is predicted over measured time, minus 1.
    """
    if isinstance(predictions, Prediction):
        predictions = {"prediction": predictions}
    rows = []
    for name, prediction in predictions.items():
        measured = _measured_s(run, prediction.ranks, prediction.batch)
        rows.append(
            {
                "name": name,
                "ranks": prediction.ranks,
                "computation_ms": 1e3 * (prediction.computation_s - prediction.waiting_s),
                "waiting_ms": 1e3 * prediction.waiting_s,
                "communication_ms": 1e3 * prediction.communication_s,
                "full_overlap_ms": 1e3 * prediction.full_overlap_s,
                "predicted_ms": 1e3 * prediction.seconds,
                "no_overlap_ms": 1e3 * prediction.no_overlap_s,
                "measured_ms": 1e3 * measured,
                "error": prediction.seconds / measured - 1,
            }
        )
    labels = {
        "name": ("from", "s"),
        "ranks": ("ranks", "d"),
        "computation_ms": ("computation, ms", ".2f"),
        "waiting_ms": ("waiting, ms", ".2f"),
        "communication_ms": ("communication, ms", ".2f"),
        "full_overlap_ms": ("with full overlap, ms", ".2f"),
        "predicted_ms": ("predicted, ms", ".2f"),
        "no_overlap_ms": ("without overlap, ms", ".2f"),
        "measured_ms": ("measured, ms", ".2f"),
        "error": ("error", "+.0%"),
    }
    return Table.of(
        rows,
        labels,
        "Time of a step. Full overlap: communication hidden behind "
        "computation as far as it goes; without: one after the other. "
        "What the model leaves out can make a step longer than both.",
    )


# ---------------------------------------------------------------- clusters


def table(predictions: Iterable[Prediction], title: str = "") -> Table:
    """Tabulate predictions over ranks; `title` begins the caption."""
    rows = [
        {
            "ranks": prediction.ranks,
            "batch": prediction.batch,
            "all_reduces": prediction.all_reduces,
            "computation_ms": 1e3 * prediction.computation_s,
            "communication_ms": 1e3 * prediction.communication_s,
            "full_overlap_ms": 1e3 * prediction.full_overlap_s,
            "step_ms": 1e3 * prediction.seconds,
            "no_overlap_ms": 1e3 * prediction.no_overlap_s,
            "images_per_s": prediction.images_per_s,
            "efficiency": prediction.efficiency,
            "efficiency_no_overlap": prediction.efficiency_no_overlap,
            "efficiency_full_overlap": prediction.efficiency_full_overlap,
        }
        for prediction in predictions
    ]
    labels = {
        "ranks": ("ranks", "d"),
        "batch": ("global batch", ",d"),
        "all_reduces": ("all-reduces", "d"),
        "computation_ms": ("computation, ms", ",.1f"),
        "communication_ms": ("communication, ms", ",.1f"),
        "step_ms": ("step, ms", ",.1f"),
        "images_per_s": ("images/s", ",.0f"),
        "efficiency_no_overlap": ("efficiency without overlap", ".0%"),
        "efficiency": ("efficiency", ".0%"),
        "efficiency_full_overlap": ("with full overlap", ".0%"),
    }
    return Table.of(
        rows,
        labels,
        f"{title}{' ' * bool(title)}Predicted, not measured. Without "
        "overlap, communication follows computation; with full overlap "
        "it hides behind it. Neither is a bound of what can be measured: "
        "late input, waiting for the slowest and other users of the "
        "network are left out, and cost time.",
    )


# ---------------------------------------------------------------- what others measured
