"""Predict the time of a training step on many ranks, from what computing and communicating cost.

A step is computation, which all ranks do at the same time, and communication: all-reduces of the
gradients, whose time `ddl.cost` models. Two bounds hold whatever the library does: with no overlap
the two add up, and with full overlap the longer one decides. Between them lies the estimate, by a
rule: backward takes two thirds of the computation; gradients become ready evenly during it, and are
averaged in B messages of one size, each as soon as it is ready and the one before is through. So
the first message can start when 1/B of the backward pass is done, and the last no earlier than at
its end: with one message nothing overlaps.

What is left out: the time that ranks need to agree on what is ready, input that comes late,
computation that slows down while messages pass, networks that others use too, and on clusters that
are not measured the wait for the slowest rank. All of that makes steps longer, not shorter.

1 MB is 10⁶ bytes and 1 GB/s 10⁹ bytes/s; times are seconds.
"""

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy

from ddl import cost
from ddl.efficiency import efficiency
from ddl.table import Table

__all__ = [
    "Prediction",
    "Server",
    "cluster",
    "models",
    "points",
    "predict_step",
    "published",
    "report",
    "scaling",
    "server",
    "slowest",
    "table",
]

FORWARD = 1 / 3  # of the computation: a layer's backward pass takes about twice its forward pass
BYTES = 4  # of a parameter's gradient
FUSION_BYTES = 64 * 2**20  # Horovod's default: its documentation, page Tensor Fusion
METRICS_BYTES = 12  # what train_cifar.py averages besides; Horovod fuses it with the gradients

# NCCL's own model has these. Shares of the nominal bandwidth: src/graph/topo.h (20 of an NVLink's
# 25 GB/s, 12 of PCIe 3 x16's 15.75, 12 of 100 Gbit/s); latencies in seconds of the ring's Simple
# protocol: src/graph/tuning.cc, hwLat, commit 01afd20. None of them is fitted to what is published.
SHARE = {"NVLink": 20 / 25, "PCIe": 12 / 15.75, "network": 12 / 12.5}
LATENCY_S = {"NVLink": 3.4e-6, "PCIe": 5.7e-6, "network": 9.6e-6}

REFERENCE = Path(__file__).resolve().parents[2] / "results/reference"


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
    """

    ranks: int
    batch: int
    computation_s: float
    communication_s: float
    all_reduces: int
    one_images_per_s: float
    waiting_s: float = 0.0

    def __post_init__(self):
        for name in ("ranks", "batch", "all_reduces"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: at least 1 is needed")
        for name in ("computation_s", "one_images_per_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)!r}: it must be above 0")
        if not self.communication_s >= 0:
            raise ValueError(f"communication_s={self.communication_s!r}: a time, 0 or more")

    @property
    def seconds(self):
        """The estimate, by the module's rule."""
        forward = FORWARD * self.computation_s
        backward = self.computation_s - forward
        each = self.communication_s / self.all_reduces
        # Between the first message that is held up by the network and the last by the computation
        # the end grows or falls evenly: it is latest at one of the two.
        end = forward + max(backward + each, backward / self.all_reduces + self.communication_s)
        return min(max(end, self.low_s), self.high_s)  # rounding may step over a bound

    @property
    def low_s(self):
        """Full overlap: the longer of computation and communication."""
        return max(self.computation_s, self.communication_s)

    @property
    def high_s(self):
        """No overlap: both, one after the other."""
        return self.computation_s + self.communication_s

    @property
    def images_per_s(self):
        """Of all ranks together."""
        return self.batch / self.seconds

    @property
    def efficiency(self):
        """`ddl.efficiency.efficiency` of the estimate."""
        return self.efficiency_at(self.seconds)

    def efficiency_at(self, seconds):
        """Return the scaling efficiency if a step took so many seconds."""
        return efficiency(self.batch / seconds, self.ranks, self.one_images_per_s)

    def __str__(self):
        return (f"{self.ranks} ranks: {1e3 * self.seconds:.2f} ms a step (between "
                f"{1e3 * self.low_s:.2f} and {1e3 * self.high_s:.2f}), {self.images_per_s:,.0f} "
                f"images/s, efficiency {self.efficiency:.0%}")


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
        below = numpy.prod([numpy.searchsorted(row, values, side="right") / len(row)
                            for row in times], axis=0)
    else:
        below = (numpy.arange(1, len(values) + 1) / len(values)) ** ranks
    return float((values * numpy.diff(below, prepend=0.0)).sum())


def points(run):
    """Return the all-reduces of a run of `bench_allreduce.py`, for `ddl.cost.fit`.

    Parameters
    ----------
    run : Run or Recorded

    Returns
    -------
    list of (int, float)
        Bytes, and the median of the seconds.
    """
    found = [(point["size_bytes"], point["seconds"]["median"])
             for point in _result(run).get("points", ())
             if point.get("operation") == "all_reduce" and point["size_bytes"]]
    if not found:
        raise ValueError(f"run {run.name!r} timed no all-reduce: bench_allreduce.py does")
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
    fit : ddl.cost.Fit, optional
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
        raise ValueError(f"run {run.name!r} did not measure train_cifar.py's step: step_times.py "
                         'does with model="cnn"')
    each = result["per_rank_batch"]
    times = (size.get("apart") or size)["rank_steps_s"]
    many = result["ranks"] if ranks is None else ranks
    part = size.get("part")
    if result["ranks"] == 1 and part and ranks in (None, part["of"]):
        many, each, times = part["of"], each // part["of"], part["rank_steps_s"]
    if many > 1 and fit is None:
        raise ValueError(f"{many} ranks talk: a fit of their all-reduces is needed, "
                         "ddl.cost.fit(points(run), ranks)")
    mean = float(numpy.mean(times))
    computation = slowest(times, many)
    communication = 0.0
    if many > 1:
        communication = float(fit(size["gradient_bytes"] + METRICS_BYTES, many))
    return Prediction(
        ranks=many, batch=each * many, computation_s=computation, communication_s=communication,
        all_reduces=1, waiting_s=computation - mean,
        one_images_per_s=_result(one)["images_per_s"] if one else each / mean,
    )


def _result(run):
    if run.result is None:
        raise ValueError(f"run {run.name!r} has no result: it is {run.state}")
    return run.result


def _measured_s(run, ranks=None, batch=None):
    """Return the mean time of a step of a run, which must have these ranks and this batch."""
    result = _result(run)
    for name, wanted in (("ranks", ranks), ("global_batch", batch)):
        if wanted is not None and result[name] != wanted:
            raise ValueError(f"run {run.name!r} has {name} {result[name]}, and {wanted} is what "
                             "was predicted")
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
        rows.append({
            "name": name, "ranks": one.ranks,
            "computation_ms": 1e3 * (one.computation_s - one.waiting_s),
            "waiting_ms": 1e3 * one.waiting_s, "communication_ms": 1e3 * one.communication_s,
            "low_ms": 1e3 * one.low_s, "predicted_ms": 1e3 * one.seconds,
            "high_ms": 1e3 * one.high_s, "measured_ms": 1e3 * measured,
            "error": one.seconds / measured - 1,
        })
    labels = {
        "name": ("from", "s"), "ranks": ("ranks", "d"),
        "computation_ms": ("computation, ms", ".2f"), "waiting_ms": ("waiting, ms", ".2f"),
        "communication_ms": ("communication, ms", ".2f"),
        "low_ms": ("at least, ms", ".2f"), "predicted_ms": ("predicted, ms", ".2f"),
        "high_ms": ("at most, ms", ".2f"), "measured_ms": ("measured, ms", ".2f"),
        "error": ("error", "+.0%"),
    }
    return Table.of(rows, labels, "Time of a step. At least: communication hidden behind "
                                  "computation as far as it goes; at most: one after the other.")


# ---------------------------------------------------------------- clusters


@dataclass(frozen=True)
class Server:
    """What a server of a cluster is to an all-reduce.

    Parameters
    ----------
    name : str
    gpus : int
    gpu : str
        Model.
    inside, between : ddl.cost.Link
        From a GPU to the next, and from a server to the others with all its network cards.
    """

    name: str
    gpus: int
    gpu: str
    inside: cost.Link
    between: cost.Link

    def all_reduce_s(self, size_bytes, nodes, algorithm="best"):
        """Return the seconds of an all-reduce over all GPUs of so many servers.

        Parameters
        ----------
        size_bytes : float
        nodes : int
        algorithm : {"best", "ring", "hierarchical"}
            One ring through all GPUs, or a ring inside and halving and doubling between
            (`ddl.cost`); the best is the faster, as libraries choose by size.
        """
        ways = {"ring": cost.ring_over_nodes, "hierarchical": cost.hierarchical}
        if algorithm not in ("best", *ways):
            raise ValueError(f"algorithm={algorithm!r} is not one of: best, {', '.join(ways)}")
        names = ways if algorithm == "best" else (algorithm,)
        return min(ways[name](size_bytes, self.gpus, nodes, self.inside, self.between)
                   for name in names)


def server(topology):
    """Return what a topology is to an all-reduce.

    Between GPUs with NVLinks count all NVLinks of the GPU that has the fewest: as many rings use
    them. Without, the slowest way from a GPU to the next one in their order counts. Of nominal
    bandwidths as much is taken as NCCL takes (`SHARE`).

    Parameters
    ----------
    topology : ddl.topology.Topology, str or path
        Or what `ddl.topology.load` takes.

    Returns
    -------
    Server

    Raises
    ------
    ValueError
        If it has no GPU, no known way between two of them, or doesn't say its network.
    """
    from ddl import topology as topologies

    if not isinstance(topology, topologies.Topology):
        topology = topologies.load(topology)
    names = [gpu.name for gpu in topology.gpus]
    if not names:
        raise ValueError(f"topology {topology.name!r} has no GPU: predictions are of GPU clusters")
    if topology.network is None:
        raise ValueError(f"topology {topology.name!r} doesn't say what joins such machines: it "
                         "needs a [network] with kind, nics and gbit_per_s")
    links = [sum(link.gb_per_s for link in topology.nvlinks if name in (link.a, link.b))
             for name in names]
    kind, gb_per_s = "NVLink", min(links)
    if len(names) == 1:
        kind, gb_per_s = "PCIe", math.inf
    elif not gb_per_s > 0:
        pairs = zip(names, names[1:] + names[:1], strict=True)
        kind, gb_per_s = "PCIe", min(topology.bandwidth(a, b) for a, b in pairs)
    if math.isnan(gb_per_s):
        raise ValueError(f"topology {topology.name!r}: how fast its GPUs are joined is not known")
    return Server(
        topology.name, len(names), topology.gpus[0].model,
        cost.Link(LATENCY_S[kind], 1e-9 / (SHARE[kind] * gb_per_s)),
        cost.Link(LATENCY_S["network"], 1e-9 / (SHARE["network"] * topology.network.gb_per_s)),
    )


def _models():
    return tomllib.loads((REFERENCE / "models.toml").read_text())["model"]


def models():
    """Tabulate the networks that `cluster` knows: parameters, and one GPU's speed with its source.

    Returns
    -------
    Table
    """
    rows = [{"model": name, "title": facts["title"], "parameters": facts["parameters"],
             "gradient_mb": 1e-6 * BYTES * facts["parameters"], **speed}
            for name, facts in _models().items() for speed in facts["speed"]]
    labels = {
        "model": ("name", "s"), "title": ("network", "s"), "parameters": ("parameters", ",d"),
        "gradient_mb": ("gradient, MB", ".1f"), "gpu": ("GPU", "s"), "batch": ("batch", "d"),
        "images_per_s": ("images/s", ",.0f"), "precision": ("precision", "s"),
        "source": ("source", "s"),
    }
    return Table.of(rows, labels, "Published by others, of one GPU, not measured here.")


def _known(model):
    known = _models()
    if model not in known:
        raise ValueError(f"there is no model {model!r}; there are: {', '.join(known)}. For "
                         "another, say its parameters and one GPU's images/s")
    return known[model]


def _speed(model, gpu, batch):
    """Return one GPU's images/s with a model, measured at the nearest batch."""
    speeds = [speed for speed in _known(model)["speed"] if speed["gpu"] in gpu]
    if not speeds:
        there = ", ".join(dict.fromkeys(speed["gpu"] for speed in _known(model)["speed"]))
        raise ValueError(f"how fast one {gpu or 'unnamed GPU'} trains {model} is not known here "
                         f"(but of: {there}); say its images/s")
    return min(speeds, key=lambda speed: abs(math.log(speed["batch"] / batch)))["images_per_s"]


def cluster(topology, nodes, model=None, batch=64, *, parameters=None, images_per_s=None,
            all_reduces=None, algorithm="best"):
    """Predict a step of a training with Horovod on a cluster of equal servers.

    Parameters
    ----------
    topology : ddl.topology.Topology, str or path
        Of a server, with its ``[network]``.
    nodes : int
        Servers, with a rank a GPU.
    model : str, optional
        One of `models`; or say `parameters` and `images_per_s`, which go before it.
    batch : int
        Of each GPU.
    parameters : int, optional
    images_per_s : float, optional
        Of one GPU.
    all_reduces : int, optional
        Messages a step; by default as many as Horovod needs that fuses up to 64 MiB.
    algorithm : {"best", "ring", "hierarchical"}

    Returns
    -------
    Prediction
    """
    one = server(topology)
    if nodes < 1:
        raise ValueError(f"nodes={nodes!r}: at least 1 is needed")
    if batch < 1:
        raise ValueError(f"batch={batch!r}: at least 1 is needed")
    if model is None and (parameters is None or images_per_s is None):
        raise ValueError("a model is needed, or its parameters and one GPU's images/s")
    parameters = parameters or _known(model)["parameters"]
    images_per_s = images_per_s or _speed(model, one.gpu, batch)
    return _on(one, nodes, one.gpus, parameters, images_per_s, batch, all_reduces, algorithm)


def _on(one, nodes, gpus, parameters, images_per_s, batch, all_reduces, algorithm):
    """Predict for so many servers with so many GPUs each, which are `one`'s or fewer."""
    if gpus < one.gpus:
        one = Server(one.name, gpus, one.gpu, one.inside, one.between)
    size_bytes = BYTES * parameters
    messages = all_reduces or math.ceil(size_bytes / FUSION_BYTES)
    return Prediction(
        ranks=nodes * gpus, batch=nodes * gpus * batch, computation_s=batch / images_per_s,
        communication_s=messages * one.all_reduce_s(size_bytes / messages, nodes, algorithm),
        all_reduces=messages, one_images_per_s=images_per_s,
    )


def scaling(topology, nodes, model=None, batch=64, **options):
    """Predict steps of 1, 2, 4 … GPUs of a server, and then of 2, 4 … servers, up to `nodes`.

    Parameters
    ----------
    topology, nodes, model, batch, options
        As for `cluster`.

    Returns
    -------
    list of Prediction
    """
    whole = cluster(topology, nodes, model, batch, **options)  # says what is wrong, if anything
    one = server(topology)
    parameters = options.get("parameters") or _known(model)["parameters"]
    counts = [(1, gpus) for gpus in _doubling(one.gpus)]
    counts += [(many, one.gpus) for many in _doubling(nodes)[1:]]
    return [_on(one, many, gpus, parameters, whole.one_images_per_s, batch,
                options.get("all_reduces"), options.get("algorithm", "best"))
            for many, gpus in counts]


def _doubling(last):
    """Return 1, 2, 4 … and the last."""
    numbers = [1 << power for power in range(last.bit_length()) if 1 << power < last]
    return [*numbers, last]


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
    rows = [{
        "ranks": one.ranks, "batch": one.batch, "all_reduces": one.all_reduces,
        "computation_ms": 1e3 * one.computation_s, "communication_ms": 1e3 * one.communication_s,
        "low_ms": 1e3 * one.low_s, "step_ms": 1e3 * one.seconds, "high_ms": 1e3 * one.high_s,
        "images_per_s": one.images_per_s, "efficiency": one.efficiency,
        "efficiency_low": one.efficiency_at(one.high_s),
        "efficiency_high": one.efficiency_at(one.low_s),
    } for one in predictions]
    labels = {
        "ranks": ("ranks", "d"), "batch": ("global batch", ",d"),
        "all_reduces": ("all-reduces", "d"), "computation_ms": ("computation, ms", ",.1f"),
        "communication_ms": ("communication, ms", ",.1f"), "step_ms": ("step, ms", ",.1f"),
        "images_per_s": ("images/s", ",.0f"), "efficiency_low": ("efficiency at least", ".0%"),
        "efficiency": ("efficiency", ".0%"), "efficiency_high": ("at most", ".0%"),
    }
    return Table.of(rows, labels, f"{title}{' ' * bool(title)}Predicted, not measured; at least: "
                                  "nothing overlaps; at most: all that can. Left out: late input, "
                                  "waiting for the slowest, other users of the network.")


# ---------------------------------------------------------------- what others measured


def published():
    """Predict scaling efficiencies that others published, and compare.

    Nothing is fitted to them: one GPU's speed is published, too, and links cost what NCCL's own
    model says (`SHARE`, `LATENCY_S`). Where they used TCP, without RDMA, the model does not know
    that sockets reach less of a fast network.

    Returns
    -------
    Table
        A row a published figure, in percent. ``error_points``: predicted less published.
    """
    said = tomllib.loads((REFERENCE / "published-scaling.toml").read_text())
    rows = []
    for point in said["point"]:
        options = {key: point[key] for key in ("images_per_s", "all_reduces") if key in point}
        options["algorithm"] = point.get("algorithm", "ring")
        many = cluster(point["topology"], point["nodes"], point["model"], point["batch"], **options)
        base = None
        if point.get("from_gpus", 1) > 1:
            base = cluster(point["topology"], 1, point["model"], point["batch"], **options)

        def percent(seconds, base_s, many=many, base=base):
            return 100 * many.efficiency_at(seconds) / (base.efficiency_at(base_s) if base else 1)

        estimate = percent(many.seconds, base and base.seconds)
        rows.append({
            "study": point["source"], "network": _known(point["model"])["title"],
            "gpus": many.ranks, "tcp": point.get("tcp", False),
            "published_percent": float(point["percent"]),
            "low_percent": percent(many.high_s, base and base.high_s),
            "predicted_percent": estimate,
            "high_percent": percent(many.low_s, base and base.low_s),
            "error_points": estimate - point["percent"],
            "source": said["source"][point["source"]]["text"],
        })
    labels = {
        "study": ("study", "s"), "network": ("network", "s"), "gpus": ("GPUs", "d"),
        "published_percent": ("published, %", ".0f"), "low_percent": ("at least, %", ".0f"),
        "predicted_percent": ("predicted, %", ".0f"), "high_percent": ("at most, %", ".0f"),
        "error_points": ("error, points", "+.0f"),
    }
    sources = "; ".join(f"{name}: {source['text']}" for name, source in said["source"].items())
    return Table.of(rows, labels, (
        "Scaling efficiency. Nothing in the prediction is fitted to it; at least and at most are the "
        "bounds of overlap, not of all that can happen. Left out, so that "
        "predictions are too high: agreeing on what is ready, late input, waiting for the slowest, "
        "computation that messages slow down; and that TCP without RDMA (horovod-64) reaches less "
        f"of a network. Sources: {sources}."))
