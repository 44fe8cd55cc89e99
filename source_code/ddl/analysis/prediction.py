"""Predict the time of a training step on many ranks, from what computing and communicating cost.

A step is computation, which all ranks do at the same time, and communication: all-reduces of the
gradients, whose time `ddl.analysis.cost` models. With no overlap the two add up, and with full overlap the
longer one decides. Between these lies the estimate, by a rule: backward takes two thirds of the
computation; gradients become ready evenly during it, and are averaged in B messages of one size,
each as soon as it is ready and the one before is through. So the first message can start when 1/B
of the backward pass is done, and the last no earlier than at its end: with one message nothing
overlaps.

What is left out: the time that ranks need to agree on what is ready, input that comes late,
computation that slows down while messages pass, networks that others use too, and on clusters that
are not measured the wait for the slowest rank. All of that makes steps longer, not shorter: what
is measured may well be slower than the model without overlap, which is no bound.

1 MB is 10⁶ bytes and 1 GB/s 10⁹ bytes/s; times are seconds.
"""

import math
from dataclasses import dataclass

import numpy

from ddl.analysis.efficiency import efficiency
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.records.paths import reference_dir

__all__ = ["Prediction", "points", "predict_step", "report", "slowest", "table"]

FORWARD = 1 / 3  # of the computation: a layer's backward pass takes about twice its forward pass
BYTES = 4  # of a parameter's gradient, in single precision
METRICS_BYTES = 12  # what train_cifar.py averages besides; Horovod fuses it with the gradients


REFERENCE = reference_dir()


@dataclass(frozen=True)
class Prediction:
    """A predicted training step.

    Parameters
    ----------
    ranks : int
    batch : int
        Samples in a step of all ranks together.
    computation_s : float
        Until the slowest rank is done computing, without any exchange.
    communication_s : float
        Of all all-reduces of a step, one after another.
    all_reduces : int
        In how many messages the gradients are averaged.
    one_images_per_s : float
        What the efficiency compares with: a single rank's speed.
    waiting_s : float
        How much of `computation_s` is the others' wait for the slowest.
    baseline : Prediction, optional
        What the efficiency compares with instead: a rank's speed in this one.
    """

    ranks: int
    batch: int
    computation_s: float
    communication_s: float
    all_reduces: int
    one_images_per_s: float
    waiting_s: float = 0.0
    baseline: "Prediction | None" = None

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
        # Between the first message that is held up by the network and the last by the computation
        # the end grows or falls evenly: it is latest at one of the two.
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
        """`ddl.analysis.efficiency.efficiency` of the estimate."""
        return self.efficiency_at(self.seconds)

    @property
    def efficiency_no_overlap(self):
        """Of a step whose communication follows its computation, as the baseline's does."""
        return self.efficiency_at(self.no_overlap_s, "no_overlap_s")

    @property
    def efficiency_full_overlap(self):
        """Of a step whose communication hides behind its computation, as the baseline's does."""
        return self.efficiency_at(self.full_overlap_s, "full_overlap_s")

    def efficiency_at(self, seconds, of_baseline="seconds"):
        """Return the scaling efficiency if a step took so many seconds.

        Parameters
        ----------
        seconds : float
        of_baseline : {"seconds", "no_overlap_s", "full_overlap_s"}
            How long the baseline's steps take, where there is one.
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


def slowest(times, ranks=None):
    """Return how long the slowest of several ranks takes on average, each at its own pace.

    Each rank's time is drawn from what was measured of it, whatever the others' are:
    ``E[max] = Σ x (F(x) − F(x−))``, where F is the product of the ranks' distribution functions.

    Parameters
    ----------
    times : array_like, shape (measured ranks, steps)
        Seconds of steps that ranks took without waiting for each other.
    ranks : int, optional
        Of as many, each like all that were measured together; by default those measured.

    Returns
    -------
    float
        Seconds.
    """
    times = numpy.sort(numpy.atleast_2d(numpy.asarray(times, float)), axis=1)
    values = numpy.sort(times.ravel())
    if ranks is None or ranks == len(times):
        below = numpy.prod([numpy.searchsorted(row, values, side="right") / len(row) for row in times], axis=0)
    else:
        below = (numpy.arange(1, len(values) + 1) / len(values)) ** ranks
    return float((values * numpy.diff(below, prepend=0.0)).sum())


def points(run):
    """Return the all-reduces of a run of `bench_allreduce.py`, for `ddl.analysis.cost.fit`.

    Parameters
    ----------
    run : Run or Recorded

    Returns
    -------
    list of (int, float)
        Bytes, and the median of the seconds.
    """
    found = [
        (point["size_bytes"], point["seconds"]["median"])
        for point in _result(run).get("points", ())
        if point.get("operation") == "all_reduce" and point["size_bytes"]
    ]
    if not found:
        raise InputError(f"run {run.name!r} timed no all-reduce: bench_allreduce.py does")
    return found


def predict_step(run, fit=None, ranks=None, one=None):
    """Predict a step of `train_cifar.py` from a run of `step_times.py` with its model.

    All its gradients are averaged in one message, which so has to wait for the whole backward pass.
    The run says what computing costs. One on several ranks has it of ranks side by side that
    exchange nothing: it contains that they share caches and memory, and the wait for the slowest
    (`slowest`); what it can't contain is that ranks which wait for each other compute in step. One
    on a single rank contains neither sharing nor, where it has no neighbours, their waiting.

    Parameters
    ----------
    run : Run or Recorded
        ``step_times.py`` with ``model="cnn"``.
    fit : ddl.analysis.cost.Fit, optional
        Of all-reduces; one rank needs none.
    ranks : int, optional
        By default those of the run, or of which one did its part. For others, the batch of each
        rank stays the same.
    one : Run or Recorded, optional
        On one rank, for the efficiency; by default a rank of `run`, in its company.

    Returns
    -------
    Prediction

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


def report(predictions, run):
    """Compare predictions with a run.

    Parameters
    ----------
    predictions : Prediction or dict of str to Prediction
        With what each is called.
    run : Run or Recorded
        Of `train_cifar.py`, or of `step_times.py` with its model, with as many ranks and samples.

    Returns
    -------
    Table
        ``error``: predicted over measured time, minus 1. Measured is the mean over steps, without
        the warm-up.
    """
    if isinstance(predictions, Prediction):
        predictions = {"prediction": predictions}
    rows = []
    for name, one in predictions.items():
        measured = _measured_s(run, one.ranks, one.batch)
        rows.append(
            {
                "name": name,
                "ranks": one.ranks,
                "computation_ms": 1e3 * (one.computation_s - one.waiting_s),
                "waiting_ms": 1e3 * one.waiting_s,
                "communication_ms": 1e3 * one.communication_s,
                "full_overlap_ms": 1e3 * one.full_overlap_s,
                "predicted_ms": 1e3 * one.seconds,
                "no_overlap_ms": 1e3 * one.no_overlap_s,
                "measured_ms": 1e3 * measured,
                "error": one.seconds / measured - 1,
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


def table(predictions, title=""):
    """Tabulate predictions over ranks.

    Parameters
    ----------
    predictions : iterable of Prediction
    title : str
        Begins the caption.

    Returns
    -------
    Table
    """
    rows = [
        {
            "ranks": one.ranks,
            "batch": one.batch,
            "all_reduces": one.all_reduces,
            "computation_ms": 1e3 * one.computation_s,
            "communication_ms": 1e3 * one.communication_s,
            "full_overlap_ms": 1e3 * one.full_overlap_s,
            "step_ms": 1e3 * one.seconds,
            "no_overlap_ms": 1e3 * one.no_overlap_s,
            "images_per_s": one.images_per_s,
            "efficiency": one.efficiency,
            "efficiency_no_overlap": one.efficiency_no_overlap,
            "efficiency_full_overlap": one.efficiency_full_overlap,
        }
        for one in predictions
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
