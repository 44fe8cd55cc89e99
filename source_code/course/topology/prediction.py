"""Predictions of step times on many ranks from the cost of computation and communication.

A step is computation, the wait for the slowest rank, and the all-reduces of the gradients (`course.shared.cost`), which
can partly overlap with computation. Without overlap, both add up; with full overlap, the longer one decides.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy

from course.shared import cost
from course.shared.efficiency import efficiency
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.records.paths import reference_dir

BYTES = 4  # per parameter's gradient, in single precision
METRICS_BYTES = 12  # metrics that train_cifar.py averages in the gradients' message
REFERENCE = reference_dir()


@dataclass(frozen=True)
class Prediction:
    """A predicted training step."""

    ranks: int
    batch: int  # samples per step over all ranks
    computation_s: float  # until the slowest rank has computed, without communication
    communication_s: float  # of all all-reduces of a step in sequence
    all_reduces: int  # number of messages for the gradients
    one_images_per_s: float  # baseline of the efficiency: a single rank's speed
    waiting_s: float = 0.0  # part of `computation_s` spent waiting for the slowest rank
    shown: float = 1.0  # 1: no overlap; 0: full overlap
    baseline: "Prediction | None" = None  # alternative baseline of the efficiency: a rank's speed in this prediction

    @property
    def seconds(self):
        """The estimated time, interpolated between full and no overlap by `shown`."""
        return self.full_overlap_s + self.shown * (self.no_overlap_s - self.full_overlap_s)

    @property
    def full_overlap_s(self):
        return max(self.computation_s, self.communication_s)

    @property
    def no_overlap_s(self):
        return self.computation_s + self.communication_s

    @property
    def images_per_s(self):
        """Throughput of all ranks."""
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
        """Return the scaling efficiency for given seconds of a step, and `of_baseline` for the baseline."""
        one, base = self.one_images_per_s, self.baseline
        if base:
            one = base.batch / getattr(base, of_baseline) / base.ranks
        return efficiency(self.batch / seconds, self.ranks, one)

    def __str__(self):
        return (
            f"{self.ranks} ranks: {1e3 * self.seconds:.2f} ms per step (full overlap "
            f"{1e3 * self.full_overlap_s:.2f}, none {1e3 * self.no_overlap_s:.2f}), "
            f"{self.images_per_s:,.0f} images/s, efficiency {self.efficiency:.0%}"
        )


@cache
def expected_maximum(ranks: int) -> float:
    """Return the mean lateness of the slowest of `ranks` in standard deviations: 0 for one, 0.56 for two.

    This is the expected maximum of n standard normal draws, the integral of Φ⁻¹(u^(1/n)) over u from 0 to 1 (Tippett
    1925, "On the extreme individuals", Biometrika 17).
    """
    quantile = NormalDist().inv_cdf
    total = math.fsum(quantile(((cell + 0.5) / 4000) ** (1 / ranks)) for cell in range(4000))
    return max(total / 4000, 0.0)  # for one rank, the cells cancel up to rounding


def slowest(times, ranks=None) -> float:
    """Return the mean time in seconds of the slowest of several independent ranks.

    Each rank's time is drawn from its measured ones, independently: ``E[max] = Σ x (F(x) − F(x−))``, where F is the
    product of the ranks' distribution functions.

    `times`, shape (measured ranks, steps), are step times in seconds of ranks that did not wait for each other. If
    `ranks` differs, each rank draws from all measured times.
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
        raise InputError(f"run {run.name!r} has no all-reduce times: use a run of bench_allreduce.py")
    return found


def fit_runs(runs, algorithm: str = "ring") -> cost.Fit:
    """Fit all-reduces of several runs of `bench_allreduce.py`, ideally on different numbers of ranks."""
    measured = [(point, _result(run)["ranks"]) for run in runs for point in points(run)]
    return cost.fit([point for point, _ in measured], [ranks for _, ranks in measured], algorithm)


def predict_step(run, fit=None, ranks=None, one=None, cores=None) -> Prediction:
    """Predict a step of `train_cifar.py` from a run of `step_times.py` with ``model="cnn"``.

    All gradients are averaged in one message after the whole backward pass. The run provides the cost of computation:
    with several ranks, which computed in parallel without communication, this includes shared caches and memory and the
    wait for the slowest (`slowest`).

    `fit` is for all-reduces; one rank needs none. `ranks` defaults to the run's, or to the number of ranks whose part
    of the batch it timed. With another number, the batch per rank stays the same, and `fit` needs several numbers of
    ranks. Single-threaded ranks that share `cores` take turns; by default, every rank has a core. The efficiency is
    relative to `one`, a run on one rank, or by default to a rank of `run`.

    Raises InputError if the run did not measure a whole step, or if several ranks have no fit.
    """
    result = _result(run)
    size = (result.get("sizes") or [{}])[-1]
    if not size.get("model"):
        raise InputError(f'run {run.name!r} did not measure train_cifar.py\'s step: use step_times.py with model="cnn"')
    each = result["per_rank_batch"]
    times = (size.get("apart") or size)["rank_steps_s"]
    many = result["ranks"] if ranks is None else ranks
    part = size.get("part")
    if result["ranks"] == 1 and part and ranks in (None, part["of"]):
        many, each, times = part["of"], each // part["of"], part["rank_steps_s"]
    if many > 1 and fit is None:
        raise InputError(f"{many} ranks need a fit of their all-reduces: course.shared.cost.fit(points(run), ranks)")
    turns = max(many / cores, 1) / max(result["ranks"] / cores, 1) if cores else 1
    mean = float(numpy.mean(times))
    computation = turns * slowest(times, min(many, cores or many))  # with ranks that take turns, the slowest core
    communication = 0.0
    if many > 1:
        communication = float(fit(size["gradient_bytes"] + METRICS_BYTES, many))
    return Prediction(
        ranks=many,
        batch=each * many,
        computation_s=computation,
        communication_s=communication,
        all_reduces=1,
        waiting_s=computation - turns * mean,
        one_images_per_s=_result(one)["images_per_s"] if one else each / mean,
    )


def _result(run):
    if run.result is None:
        raise InputError(f"run {run.name!r} has no result: it is {run.state}")
    return run.result


def _measured_s(run, prediction):
    """Return a run's mean step time; the run must have the predicted ranks and batch."""
    result = _result(run)
    for name, predicted in (("ranks", prediction.ranks), ("global_batch", prediction.batch)):
        if result[name] != predicted:
            raise InputError(f"run {run.name!r} has {name} {result[name]}, and {predicted} was predicted")
    return result["global_batch"] / result["images_per_s"]


def _terms(prediction, form):
    return {
        "computation_ms": (1e3 * (prediction.computation_s - prediction.waiting_s), "computation, ms", form),
        "waiting_ms": (1e3 * prediction.waiting_s, "waiting, ms", form),
        "communication_ms": (1e3 * prediction.communication_s, "communication, ms", form),
    }


def report(predictions, run) -> Table:
    """Compare one prediction, or a dictionary of predictions, with a run of the same ranks and batch.

    The measured time is the mean over steps after the warm-up. ``error`` is predicted over measured time, minus 1.
    """
    if isinstance(predictions, Prediction):
        predictions = {"prediction": predictions}
    rows = []
    for name, prediction in predictions.items():
        measured = _measured_s(run, prediction)
        rows.append(
            {
                "name": (name, "from", "s"),
                "ranks": (prediction.ranks, "ranks", "d"),
                **_terms(prediction, ".2f"),
                "full_overlap_ms": (1e3 * prediction.full_overlap_s, "with full overlap, ms", ".2f"),
                "predicted_ms": (1e3 * prediction.seconds, "predicted, ms", ".2f"),
                "no_overlap_ms": (1e3 * prediction.no_overlap_s, "without overlap, ms", ".2f"),
                "measured_ms": (1e3 * measured, "measured, ms", ".2f"),
                "error": (prediction.seconds / measured - 1, "error", "+.0%"),
            }
        )
    caption = (
        "Time of a step. Full overlap: communication hidden behind computation as far as possible; without: one after "
        "the other. Costs outside the model can make a step longer than both."
    )
    return Table.of(rows, caption)


def table(predictions: Iterable[Prediction], title: str = "", margin_points: float | None = None) -> Table:
    """Tabulate the terms of predictions by ranks, with an interval if the efficiency's margin in points is given."""
    predictions = list(predictions)
    rows = [
        {
            "ranks": (prediction.ranks, "ranks", "d"),
            "batch": (prediction.batch, "global batch", ",d"),
            "all_reduces": (prediction.all_reduces, "all-reduces", "d"),
            **_terms(prediction, ",.1f"),
            "full_overlap_ms": 1e3 * prediction.full_overlap_s,
            "no_overlap_ms": 1e3 * prediction.no_overlap_s,
            "shown_ms": (1e3 * (prediction.seconds - prediction.computation_s), "of it shown, ms", ",.1f"),
            "step_ms": (1e3 * prediction.seconds, "step, ms", ",.1f"),
            "images_per_s": (prediction.images_per_s, "images/s", ",.0f"),
            "efficiency": (prediction.efficiency, "efficiency", ".0%"),
            "efficiency_no_overlap": prediction.efficiency_no_overlap,
            "efficiency_full_overlap": prediction.efficiency_full_overlap,
            **_interval(prediction, margin_points),
        }
        for prediction in predictions
    ]
    caption = (
        f"{title}{' ' * bool(title)}Predicted, not measured. A step is computation, waiting for the slowest rank, and "
        "what shows of the communication: all of a single message; of several, the middle between no and full overlap."
    )
    if margin_points is not None:
        caption += (
            f" From, to: four of five published efficiencies lay within {margin_points:g} points of the predicted one; "
            "of those recorded after the model was made, two of three."
        )
    return Table.of(rows, caption)


def _interval(prediction, margin_points):
    """Return the interval of an efficiency, except for one rank, which has 100 % by definition."""
    if margin_points is None:
        return {}
    half = margin_points / 100 if prediction.efficiency != 1 else 0.0
    low, high = max(prediction.efficiency - half, 0.0), min(prediction.efficiency + half, 1.0)
    return {"low": (low, "from", ".0%"), "high": (high, "to", ".0%")}
