"""Predict the time of a training step on many ranks, from what computing and communicating cost.

A step is computation, which all ranks do at the same time, and communication: all-reduces of the
gradients, whose time `ddl.cost` models. With no overlap the two add up, and with full overlap the
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
import numbers
import re
import tomllib
from dataclasses import dataclass, replace

import numpy

from ddl import cost
from ddl.display.table import Table
from ddl.efficiency import efficiency
from ddl.records.paths import reference_dir
from ddl.topology.graph import Network
from ddl.topology.link import pcie_gb_per_s

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
BYTES = 4  # of a parameter's gradient, in single precision
FUSION_BYTES = 64 * 2**20  # Horovod's default: its documentation, page Tensor Fusion
METRICS_BYTES = 12  # what train_cifar.py averages besides; Horovod fuses it with the gradients

# NCCL's own model has these. Shares of the nominal bandwidth: src/graph/topo.h (20 of an NVLink's
# 25 GB/s, 12 of PCIe 3 x16's 15.75, 12 of 100 Gbit/s); latencies in seconds of the ring's Simple
# protocol: src/graph/tuning.cc, hwLat, commit 01afd20. None of them is fitted to what is published.
SHARE = {"NVLink": 20 / 25, "PCIe": 12 / 15.75, "network": 12 / 12.5}
LATENCY_S = {"NVLink": 3.4e-6, "PCIe": 5.7e-6, "network": 9.6e-6}

# Taken for links of which a matrix of nvidia-smi tells the kind and no rate, in GB/s per direction:
# an NVLink of the generations 2 to 4, and PCIe 3 x16.
ASSUMED = {"NVLink": 25.0, "PCIe": pcie_gb_per_s(3, 16)}
MOST = 1e15  # of anything: far above what can be, far below what floats can't hold

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
                raise ValueError(f"{name}={getattr(self, name)!r}: at least 1 is needed")
        for name in ("computation_s", "one_images_per_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)!r}: it must be above 0, and finite")
        if not 0 <= self.communication_s < math.inf:
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
        """`ddl.efficiency.efficiency` of the estimate."""
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
    """Return the all-reduces of a run of `bench_allreduce.py`, for `ddl.cost.fit`.

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
        raise ValueError(
            f'run {run.name!r} did not measure train_cifar.py\'s step: step_times.py does with model="cnn"'
        )
    each = result["per_rank_batch"]
    times = (size.get("apart") or size)["rank_steps_s"]
    many = result["ranks"] if ranks is None else ranks
    part = size.get("part")
    if result["ranks"] == 1 and part and ranks in (None, part["of"]):
        many, each, times = part["of"], each // part["of"], part["rank_steps_s"]
    if many > 1 and fit is None:
        raise ValueError(f"{many} ranks talk: a fit of their all-reduces is needed, ddl.cost.fit(points(run), ranks)")
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
        raise ValueError(f"run {run.name!r} has no result: it is {run.state}")
    return run.result


def _measured_s(run, ranks=None, batch=None):
    """Return the mean time of a step of a run, which must have these ranks and this batch."""
    result = _result(run)
    for name, wanted in (("ranks", ranks), ("global_batch", batch)):
        if wanted is not None and result[name] != wanted:
            raise ValueError(f"run {run.name!r} has {name} {result[name]}, and {wanted} is what was predicted")
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
    assumed : str
        What its topology does not say, and was taken to be so.
    """

    name: str
    gpus: int
    gpu: str
    inside: cost.Link
    between: cost.Link
    assumed: str = ""

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
        return min(ways[name](size_bytes, self.gpus, nodes, self.inside, self.between) for name in names)


def server(topology, network=None, link_gb_per_s=None):
    """Return what a topology is to an all-reduce.

    Between GPUs with NVLinks count all NVLinks of the GPU that has the fewest: as many rings use
    them. Without, the slowest way from a GPU to the next one in their order counts. Of nominal
    bandwidths as much is taken as NCCL takes (`SHARE`).

    Parameters
    ----------
    topology : ddl.topology.Topology, str or path
        Or what `ddl.topology.load` takes.
    network : ddl.topology.graph.Network or str, optional
        What joins such machines, instead of what the topology says: cards × Gbit/s of each,
        ``"8x200"``. A matrix of nvidia-smi does not say it.
    link_gb_per_s : float, optional
        Of the way from a GPU to the next, per direction, instead of what the topology says. Where
        it says only what kinds of links there are, as a matrix does, `ASSUMED` is taken.

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
    network = _network(network) if isinstance(network, str) else network or topology.network
    if network is None:
        raise ValueError(
            f"topology {topology.name!r} doesn't say what joins such machines: it "
            "needs a [network] with kind, nics and gbit_per_s, or say it beside the "
            'topology: network="8x200", --network 8x200, for 8 cards of 200 Gbit/s'
        )
    kind, gb_per_s, assumed = _inside(topology, names)
    if link_gb_per_s is not None:
        gb_per_s, assumed = _checked("link_gb_per_s", link_gb_per_s), ""
    if math.isnan(gb_per_s):
        raise ValueError(
            f"topology {topology.name!r}: how fast its GPUs are joined is not known; "
            "say it: link_gb_per_s, --link-gb-per-s"
        )
    return Server(
        topology.name,
        len(names),
        topology.gpus[0].model,
        cost.Link(LATENCY_S[kind], 1e-9 / (SHARE[kind] * gb_per_s)),
        cost.Link(LATENCY_S["network"], 1e-9 / (SHARE["network"] * network.gb_per_s)),
        assumed,
    )


def _network(text):
    match = re.fullmatch(r"\s*(?:(\d{1,6})\s*[x×*]\s*)?(\d{1,9}(?:\.\d{1,9})?)\s*", text)
    if not match:
        raise ValueError(f"network={text!r}: cards × Gbit/s of each is needed, such as 8x200")
    return Network("network", int(match[1] or 1), float(match[2]))


def _inside(topology, names):
    """Return the kind of links between GPUs, their GB/s, and what was taken for it unsaid."""
    if len(names) == 1:
        return "PCIe", math.inf, ""
    links = [[link for link in topology.nvlinks if name in (link.a, link.b)] for name in names]
    if all(links):
        told = [sum(link.gb_per_s for link in own) for own in links]
        if not any(map(math.isnan, told)):
            return "NVLink", min(told), ""
        count = min(sum(link.count for link in own) for own in links)
        return (
            "NVLink",
            count * ASSUMED["NVLink"],
            (f"Taken for each NVLink: {ASSUMED['NVLink']:g} GB/s, which generations 2 to 4 have."),
        )
    pairs = list(zip(names, names[1:] + names[:1], strict=True))
    told = [topology.bandwidth(a, b) for a, b in pairs]
    silent = [pair for pair, gb_per_s in zip(pairs, told, strict=True) if math.isnan(gb_per_s)]
    if not silent:
        return "PCIe", min(told), ""
    if all(any(hop.kind.startswith(("PCIe", "NV")) for hop in topology.path(a, b)) for a, b in silent):
        return "PCIe", ASSUMED["PCIe"], (f"Taken for the way between GPUs: {ASSUMED['PCIe']:.4g} GB/s, PCIe 3 x16.")
    return "PCIe", math.nan, ""


def _models():
    return tomllib.loads((REFERENCE / "models.toml").read_text())["model"]


def models():
    """Tabulate the networks that `cluster` knows: parameters, and one GPU's speed with its source.

    Returns
    -------
    Table
    """
    rows = [
        {
            "model": name,
            "title": facts["title"],
            "parameters": facts["parameters"],
            "gradient_mb": 1e-6 * BYTES * facts["parameters"],
            **speed,
        }
        for name, facts in _models().items()
        for speed in facts["speed"]
    ]
    labels = {
        "model": ("name", "s"),
        "title": ("network", "s"),
        "parameters": ("parameters", ",d"),
        "gradient_mb": ("gradient, MB", ".1f"),
        "gpu": ("GPU", "s"),
        "batch": ("batch", "d"),
        "images_per_s": ("images/s", ",.0f"),
        "precision": ("precision", "s"),
        "source": ("source", "s"),
    }
    return Table.of(rows, labels, "Published by others, of one GPU, not measured here.")


def _known(model):
    known = _models()
    if model not in known:
        raise ValueError(
            f"there is no model {model!r}; there are: {', '.join(known)}. For "
            "another, say its parameters and one GPU's images/s"
        )
    return known[model]


def _speed(model, gpu, batch):
    """Return one GPU's images/s with a model, measured at the nearest batch."""
    speeds = [speed for speed in _known(model)["speed"] if speed["gpu"] in gpu]
    if not speeds:
        there = ", ".join(dict.fromkeys(speed["gpu"] for speed in _known(model)["speed"]))
        raise ValueError(
            f"how fast one {gpu or 'unnamed GPU'} trains {model} is not known here (but of: {there}); say its images/s"
        )
    return min(speeds, key=lambda speed: abs(math.log(speed["batch"] / batch)))["images_per_s"]


def _checked(name, value, least=None):
    """Return a number, which must be finite and above 0, or a whole one from `least` on."""
    whole = least is not None
    fits = isinstance(value, numbers.Integral if whole else numbers.Real)
    if not fits or isinstance(value, bool) or not (value >= least if whole else value > 0):
        needed = f"a whole number, {least} or more," if whole else "a number above 0"
        raise ValueError(f"{name}={value!r}: {needed} is needed")
    if value > MOST:
        raise ValueError(f"{name}={value!r}: that is more than there can be")
    return value


@dataclass(frozen=True)
class _Training:
    """What is trained, on what kind of server."""

    server: Server
    parameters: int
    images_per_s: float
    batch: int
    all_reduces: int
    algorithm: str
    gradient_bytes: int

    def on(self, nodes, gpus, baseline=None):
        """Predict for so many servers with so many GPUs each, which are the server's or fewer."""
        size_bytes = self.gradient_bytes * self.parameters
        each_s = replace(self.server, gpus=gpus).all_reduce_s(size_bytes / self.all_reduces, nodes, self.algorithm)
        return Prediction(
            ranks=nodes * gpus,
            batch=nodes * gpus * self.batch,
            computation_s=self.batch / self.images_per_s,
            communication_s=self.all_reduces * each_s,
            all_reduces=self.all_reduces,
            one_images_per_s=self.images_per_s,
            baseline=baseline,
        )

    def baseline(self, gpus, nodes):
        """Predict what the efficiency is compared with; None: a GPU alone."""
        if gpus is None:
            return None
        own, most = self.server.gpus, nodes * self.server.gpus
        if _checked("baseline", gpus, 1) > most:
            raise ValueError(f"baseline={gpus}: that is more than the {most} GPUs of {nodes} × {self.server.name}")
        if gpus > own and gpus % own:
            raise ValueError(f"baseline={gpus}: whole servers of {self.server.name} have a multiple of {own} GPUs")
        return self.on(1, gpus) if gpus <= own else self.on(gpus // own, own)


def _training(
    topology,
    nodes,
    model=None,
    batch=64,
    *,
    parameters=None,
    images_per_s=None,
    all_reduces=None,
    algorithm="best",
    gradient_bytes=BYTES,
    fusion_bytes=FUSION_BYTES,
    network=None,
    link_gb_per_s=None,
):
    """Check what is asked for, and find out what is not said of it."""
    _checked("nodes", nodes, 1)
    _checked("batch", batch, 1)
    if _checked("fusion_bytes", fusion_bytes) < 1:
        raise ValueError(f"fusion_bytes={fusion_bytes!r}: at least one byte is needed")
    if gradient_bytes not in (1, 2, 4, 8):
        raise ValueError(f"gradient_bytes={gradient_bytes!r}: 1, 2, 4 or 8 is needed")
    if model is not None and parameters is not None:
        raise ValueError(
            f"model={model!r} and parameters={parameters!r}: say one of them, as the "
            "model has its own number of parameters"
        )
    if parameters is not None:
        _checked("parameters", parameters, 1)
    if images_per_s is not None:
        _checked("images_per_s", images_per_s)
    if model is None and (parameters is None or images_per_s is None):
        raise ValueError("a model is needed, or its parameters and one GPU's images/s")
    if model is not None:
        parameters = _known(model)["parameters"]
    one = server(topology, network, link_gb_per_s)
    if images_per_s is None:
        images_per_s = _speed(model, one.gpu, batch)
    if all_reduces is None:
        all_reduces = math.ceil(gradient_bytes * parameters / fusion_bytes)
    return _Training(
        one, parameters, images_per_s, batch, _checked("all_reduces", all_reduces, 1), algorithm, gradient_bytes
    )


def cluster(topology, nodes, model=None, batch=64, *, baseline=None, **options):
    """Predict a step of a training with Horovod on a cluster of equal servers.

    Parameters
    ----------
    topology : ddl.topology.Topology, str or path
        Of a server, with its ``[network]``.
    nodes : int
        Servers, with a rank a GPU.
    model : str, optional
        One of `models`; or say `parameters` and `images_per_s`.
    batch : int
        Of each GPU.
    baseline : int, optional
        So many GPUs, of whose predicted speed the efficiency is a share; by default one alone.
    parameters : int, optional
        Of a network of your own, instead of a model.
    images_per_s : float, optional
        Of one GPU; by default what is published of the model.
    gradient_bytes : int
        Of each parameter: 4 by default, 2 where gradients travel in half precision.
    fusion_bytes : float
        Up to so many bytes are averaged in one message; by default Horovod's 64 MiB.
    all_reduces : int, optional
        Messages a step, instead.
    algorithm : {"best", "ring", "hierarchical"}
    network, link_gb_per_s : optional
        As for `server`.

    Returns
    -------
    Prediction
    """
    training = _training(topology, nodes, model, batch, **options)
    return training.on(nodes, training.server.gpus, training.baseline(baseline, nodes))


def scaling(topology, nodes, model=None, batch=64, *, baseline=None, **options):
    """Predict steps of 1, 2, 4 … GPUs of a server, and then of 2, 4 … servers, up to `nodes`.

    Parameters
    ----------
    topology, nodes, model, batch, baseline, options
        As for `cluster`.

    Returns
    -------
    list of Prediction
    """
    training = _training(topology, nodes, model, batch, **options)
    base = training.baseline(baseline, nodes)
    counts = [(1, gpus) for gpus in _doubling(training.server.gpus)]
    counts += [(many, training.server.gpus) for many in _doubling(nodes)[1:]]
    return [training.on(many, gpus, base) for many, gpus in counts]


def _doubling(last):
    """Return 1, 2, 4 … and the last."""
    return [*(1 << power for power in range(last.bit_length()) if 1 << power < last), last]


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
        many = cluster(
            point["topology"],
            point["nodes"],
            point["model"],
            point["batch"],
            algorithm=point.get("algorithm", "ring"),
            baseline=point.get("from_gpus"),
            **options,
        )
        rows.append(
            {
                "study": point["source"],
                "network": _known(point["model"])["title"],
                "gpus": many.ranks,
                "tcp": point.get("tcp", False),
                "published_percent": float(point["percent"]),
                "no_overlap_percent": 100 * many.efficiency_no_overlap,
                "predicted_percent": 100 * many.efficiency,
                "full_overlap_percent": 100 * many.efficiency_full_overlap,
                "error_points": 100 * many.efficiency - point["percent"],
                "source": said["source"][point["source"]]["text"],
            }
        )
    labels = {
        "study": ("study", "s"),
        "network": ("network", "s"),
        "gpus": ("GPUs", "d"),
        "published_percent": ("published, %", ".0f"),
        "no_overlap_percent": ("predicted without overlap, %", ".0f"),
        "predicted_percent": ("predicted, %", ".0f"),
        "full_overlap_percent": ("with full overlap, %", ".0f"),
        "error_points": ("error, points", "+.0f"),
    }
    sources = "; ".join(f"{name}: {source['text']}" for name, source in said["source"].items())
    return Table.of(
        rows,
        labels,
        (
            "Scaling efficiency. Nothing in the prediction is fitted to it. Without overlap and with "
            "full overlap are the two ends of the model, no bounds of what is measured. Left out, so "
            "that predictions are too high: agreeing on what is ready, late input, waiting for the slowest, "
            "computation that messages slow down; and that TCP without RDMA (horovod-64) reaches less "
            f"of a network. Sources: {sources}."
        ),
    )
