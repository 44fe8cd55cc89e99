"""Predictions of step times on many ranks from the cost of computation and communication.

A step is computation, the wait for the slowest rank, and the all-reduces of the gradients (`course.shared.cost`), which
can partly overlap with computation. Without overlap, both add up; with full overlap, the longer one decides.
"""

from dataclasses import dataclass

import numpy

from course.shared import cost
from course.shared.efficiency import efficiency
from ddl.display.table import Table
from ddl.errors import InputError

METRICS_BYTES = 12  # metrics that train_cifar.py averages in the gradients' message


@dataclass(frozen=True)
class Prediction:
    """A predicted training step."""

    ranks: int
    batch: int  # samples per step over all ranks
    computation_s: float  # until the slowest rank has computed, without communication
    communication_s: float  # of all all-reduces of a step in sequence
    one_images_per_s: float  # baseline of the efficiency: a single rank's speed
    waiting_s: float = 0.0  # part of `computation_s` spent waiting for the slowest rank

    @property
    def seconds(self):
        """The estimated time, without overlap."""
        return self.computation_s + self.communication_s

    @property
    def full_overlap_s(self):
        return max(self.computation_s, self.communication_s)

    @property
    def images_per_s(self):
        """Throughput of all ranks."""
        return self.batch / self.seconds

    @property
    def efficiency(self):
        """Scaling efficiency of the estimate."""
        return self.efficiency_at(self.seconds)

    def efficiency_at(self, seconds: float):
        """Return the scaling efficiency for given seconds of a step."""
        return efficiency(self.batch / seconds, self.ranks, self.one_images_per_s)

    def __str__(self):
        return (
            f"{self.ranks} ranks: {1e3 * self.seconds:.2f} ms per step "
            f"({1e3 * self.full_overlap_s:.2f} with full overlap), "
            f"{self.images_per_s:,.0f} images/s, efficiency {self.efficiency:.0%}"
        )


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


def timed(run) -> dict[int, dict]:
    """Return a run's all-reduces, measured by `bench_allreduce.py`: {bytes: median and quartiles in seconds}.

    Raises InputError for a run of another script, or without a result.
    """
    if _result(run).get("script") != "bench_allreduce.py":
        raise InputError(f"run {run.name!r} has no all-reduce times: use a run of bench_allreduce.py")
    return {point["size_bytes"]: point["seconds"] for point in run.result["points"]}


def points(run) -> list[tuple[int, float]]:
    """Return (bytes, median seconds) of a run's all-reduces, for `cost.fit`; see `timed`."""
    return [(size_bytes, seconds["median"]) for size_bytes, seconds in timed(run).items()]


def fit_runs(runs) -> cost.Fit:
    """Fit all-reduces of several runs of `bench_allreduce.py`, ideally on different numbers of ranks."""
    measured = [(point, _result(run)["ranks"]) for run in runs for point in points(run)]
    return cost.fit([point for point, _ in measured], [ranks for _, ranks in measured])


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
                "computation_ms": (1e3 * (prediction.computation_s - prediction.waiting_s), "computation, ms", ".2f"),
                "waiting_ms": (1e3 * prediction.waiting_s, "waiting, ms", ".2f"),
                "communication_ms": (1e3 * prediction.communication_s, "communication, ms", ".2f"),
                "full_overlap_ms": (1e3 * prediction.full_overlap_s, "with full overlap, ms", ".2f"),
                "predicted_ms": (1e3 * prediction.seconds, "predicted, without overlap, ms", ".2f"),
                "measured_ms": (1e3 * measured, "measured, ms", ".2f"),
                "error": (prediction.seconds / measured - 1, "error", "+.0%"),
            }
        )
    caption = (
        "Time of a step. Full overlap: communication hidden behind computation as far as possible; without: one after "
        "the other. Costs outside the model can make a step longer than both."
    )
    return Table.of(rows, caption)
