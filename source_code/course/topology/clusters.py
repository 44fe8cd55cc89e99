"""Predicted step times on clusters known from data sheets.

Nominal bandwidths come from data sheets, shares and latencies from NCCL's model, lateness from published measurements.
"""

import math
import numbers
import re
import tomllib
from dataclasses import dataclass, replace

from course.shared import cost
from course.topology.graph import Network
from course.topology.link import pcie_gb_per_s
from course.topology.prediction import BYTES, REFERENCE, Prediction, expected_maximum
from ddl.errors import InputError

# Maximal size of Horovod's fused messages: the default (documentation, page Tensor Fusion), and the default before
# release 0.21 (change log), which the published figures used.
FUSION_BYTES = 128 * 2**20
FUSION_BYTES_BEFORE = 64 * 2**20

# From NCCL's model. Shares of the nominal bandwidth: src/graph/topo.h (20 of an NVLink's 25 GB/s, 12 of PCIe 3 x16's
# 15.75, 12 of 100 Gbit/s); latencies in seconds of the ring's Simple protocol: src/graph/tuning.cc, hwLat, commit
# 01afd20. None is fitted to published figures.
SHARE = {"NVLink": 20 / 25, "PCIe": 12 / 15.75, "network": 12 / 12.5}
LATENCY_S = {"NVLink": 3.4e-6, "PCIe": 5.7e-6, "network": 9.6e-6}

# In GB/s per direction, for a matrix of nvidia-smi, which has no rates: NVLink generations 2 to 4, PCIe 3 x16.
ASSUMED = {"NVLink": 25.0, "PCIe": pcie_gb_per_s(3, 16)}

SHOWN = 0.5  # the overlap of a step is unknown: the middle between no and full overlap

# Relative standard deviation of a rank's computation, and the margin, in points of efficiency, that contains four of
# five published figures: `fitted` and `margin_points` of `course.topology.published`, rounded.
LATE = 0.0355
MARGIN_POINTS = 9.6

MOST = 1e15  # upper limit for parameters, images and bytes


@dataclass(frozen=True)
class Server:
    """A server of a cluster, described by its links."""

    name: str
    gpus: int
    gpu: str  # model
    inside: cost.Link  # between neighboring GPUs
    between: cost.Link  # between servers, of all network cards combined
    assumed: str = ""  # assumptions beyond its topology

    def all_reduce_s(self, size_bytes: float, nodes: int, algorithm="best"):
        """Return the seconds of an all-reduce over all GPUs of `nodes` servers.

        `algorithm` is "ring" or "hierarchical" (`course.shared.cost`), or "best", the faster of the two.
        """
        ways = {"ring": cost.ring_over_nodes, "hierarchical": cost.hierarchical}
        if algorithm not in ("best", *ways):
            raise InputError(f"algorithm={algorithm!r} is not one of: best, {', '.join(ways)}")
        names = ways if algorithm == "best" else (algorithm,)
        return min(ways[name](size_bytes, self.gpus, nodes, self.inside, self.between) for name in names)


def server(topology, network=None, link_gb_per_s=None) -> Server:
    """Return the `Server` for a topology or an argument of `course.topology.load`.

    With NVLinks, the bandwidth is the sum over all NVLinks of the GPU with the fewest, since there are as many rings;
    without, it is the slowest path between neighboring GPUs. Nominal bandwidths are scaled by NCCL's shares (`SHARE`).

    `network` (a `Network`, or cards × Gbit/s of each as in ``"8x200"``) and `link_gb_per_s` (from a GPU to the next,
    per direction) override the topology. A matrix of nvidia-smi has only the kinds of links: it needs `network`, and
    its links have the rates in `ASSUMED`.

    Raises InputError if GPUs, a known path between them or the network is missing.
    """
    from course.topology import Topology, load

    topology = topology if isinstance(topology, Topology) else load(topology)
    names = [gpu.name for gpu in topology.gpus]
    if not names:
        raise InputError(f"topology {topology.name!r} has no GPU, and predictions need GPUs")
    network = _network(network) if isinstance(network, str) else network or topology.network
    if network is None:
        raise InputError(
            f"topology {topology.name!r} has no network: it needs a [network] with kind, nics and gbit_per_s, "
            'or give one with it: network="8x200", --network 8x200, for 8 cards of 200 Gbit/s'
        )
    kind, gb_per_s, assumed = _inside(topology, names)
    if link_gb_per_s is not None:
        gb_per_s, assumed = _checked("link_gb_per_s", link_gb_per_s), ""
    if math.isnan(gb_per_s):
        raise InputError(
            f"topology {topology.name!r}: the bandwidth between its GPUs is unknown; "
            "give it: link_gb_per_s, --link-gb-per-s"
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
        raise InputError(f"network must be cards × Gbit/s, such as 8x200, got {text!r}")
    return Network("network", int(match[1] or 1), float(match[2]))


def _inside(topology, names):
    """Return the kind of links between GPUs, their GB/s, and the assumption behind it, if any."""
    if len(names) == 1:
        return "PCIe", math.inf, ""
    links = [[link for link in topology.nvlinks if name in (link.a, link.b)] for name in names]
    if all(links):
        rates = [sum(link.gb_per_s for link in group) for group in links]
        if not any(map(math.isnan, rates)):
            return "NVLink", min(rates), ""
        count = min(sum(link.count for link in group) for group in links)
        assumption = f"Assumed for each NVLink: {ASSUMED['NVLink']:g} GB/s, as in generations 2 to 4."
        return "NVLink", count * ASSUMED["NVLink"], assumption
    pairs = list(zip(names, names[1:] + names[:1], strict=True))
    rates = [topology.bandwidth(a, b) for a, b in pairs]
    unknown = [pair for pair, gb_per_s in zip(pairs, rates, strict=True) if math.isnan(gb_per_s)]
    if not unknown:
        return "PCIe", min(rates), ""
    if all(any(hop.kind.startswith(("PCIe", "NV")) for hop in topology.path(a, b)) for a, b in unknown):
        return "PCIe", ASSUMED["PCIe"], f"Assumed for the path between GPUs: {ASSUMED['PCIe']:.4g} GB/s, PCIe 3 x16."
    return "PCIe", math.nan, ""


def known(model):
    """Return the data of a named model in results/reference/models.toml."""
    models = tomllib.loads((REFERENCE / "models.toml").read_text())["model"]
    if model not in models:
        raise InputError(
            f"unknown model {model!r}; choose from: {', '.join(models)}. "
            "For another model, give its parameters and one GPU's images/s"
        )
    return models[model]


def _speed(model, gpu, batch):
    """Return one GPU's images/s with a model, measured at the nearest batch size."""
    speeds = [speed for speed in known(model)["speed"] if speed["gpu"] in gpu]
    if not speeds:
        gpus = ", ".join(dict.fromkeys(speed["gpu"] for speed in known(model)["speed"]))
        raise InputError(
            f"the speed of {model} on {gpu or 'an unnamed GPU'} is unknown; known GPUs: {gpus}; give images/s"
        )
    return min(speeds, key=lambda speed: abs(math.log(speed["batch"] / batch)))["images_per_s"]


def _checked(name, value, least=None):
    """Return a number if it is positive and plausible; with `least`, an integer >= `least`."""
    kind, needed = numbers.Real, "a positive number"
    if least is not None:
        kind, needed = numbers.Integral, f"an integer >= {least}"
    fits = isinstance(value, kind) and not isinstance(value, bool) and 0 < value <= MOST
    if not fits or (least and value < least):
        raise InputError(f"{name}={value!r}: {needed} is needed, at most {MOST:g}")
    return value


class _Training:
    """A training on a kind of server; the options are those of `cluster`, checked and completed."""

    def __init__(
        self,
        topology,
        nodes,
        model=None,
        batch=64,
        *,
        baseline=None,
        parameters=None,
        images_per_s=None,
        all_reduces=None,
        algorithm="best",
        gradient_bytes=BYTES,
        fusion_bytes=FUSION_BYTES,
        network=None,
        link_gb_per_s=None,
        late=LATE,
    ):
        counts = {"nodes": nodes, "batch": batch, "parameters": parameters, "all_reduces": all_reduces}
        for name, value in counts.items():
            if value is not None:
                _checked(name, value, 1)
        if _checked("fusion_bytes", fusion_bytes) < 1:
            raise InputError(f"fusion_bytes must be at least 1, got {fusion_bytes!r}")
        if gradient_bytes not in (1, 2, 4, 8):
            raise InputError(f"gradient_bytes={gradient_bytes!r}: 1, 2, 4 or 8 is needed")
        if not 0 <= late < 1:
            raise InputError(f"late must be a share of the computation, >= 0 and < 1, got {late!r}")
        if model is not None and parameters is not None:
            raise InputError(f"model={model!r} and parameters={parameters!r}: give only one of them")
        if images_per_s is not None:
            _checked("images_per_s", images_per_s)
        if model is None and (parameters is None or images_per_s is None):
            raise InputError("give a model, or its parameters and one GPU's images/s")
        self.bytes = gradient_bytes * (known(model)["parameters"] if parameters is None else parameters)
        self.server = topology if isinstance(topology, Server) else server(topology, network, link_gb_per_s)
        self.batch, self.algorithm, self.late = batch, algorithm, late
        self.images_per_s = _speed(model, self.server.gpu, batch) if images_per_s is None else images_per_s
        self.all_reduces = math.ceil(self.bytes / fusion_bytes) if all_reduces is None else all_reduces
        self.baseline = self._baseline(baseline, nodes)

    def on(self, nodes, gpus, baseline=None):
        """Predict a step on `nodes` servers with `gpus` GPUs each."""
        each = replace(self.server, gpus=gpus)
        ranks, computation_s = nodes * gpus, self.batch / self.images_per_s
        waiting_s = self.late * expected_maximum(ranks) * computation_s
        return Prediction(
            ranks=ranks,
            batch=ranks * self.batch,
            computation_s=computation_s + waiting_s,
            communication_s=self.all_reduces * each.all_reduce_s(self.bytes / self.all_reduces, nodes, self.algorithm),
            all_reduces=self.all_reduces,
            waiting_s=waiting_s,
            shown=SHOWN if self.all_reduces > 1 else 1.0,  # one message waits for the whole backward pass
            one_images_per_s=self.images_per_s,
            baseline=baseline,
        )

    def _baseline(self, gpus, nodes):
        """Predict a step of the baseline of the efficiency; None for a single GPU."""
        if gpus is None:
            return None
        each, most = self.server.gpus, nodes * self.server.gpus
        if _checked("baseline", gpus, 1) > most:
            raise InputError(f"baseline={gpus}: more than the {most} GPUs of {nodes} × {self.server.name}")
        if gpus > each and gpus % each:
            raise InputError(f"baseline={gpus}: whole servers of {self.server.name} have a multiple of {each} GPUs")
        return self.on(1, gpus) if gpus <= each else self.on(gpus // each, each)


def cluster(topology, nodes: int, model=None, batch: int = 64, **options) -> Prediction:
    """Predict a training step with Horovod on a cluster of identical servers, one rank per GPU.

    `topology` is a `Server`, or as for `server` (so are `network` and `link_gb_per_s`), and `model` a name in
    results/reference/models.toml, or None with `parameters` and `images_per_s`. `batch` is per GPU. The efficiency is
    relative to the predicted speed of `baseline` GPUs, by default one.

    Further options: `images_per_s` of one GPU (default: as published for the model); `gradient_bytes` per parameter (4,
    or 2 for half precision); `fusion_bytes`, the maximal size of a message (Horovod's 128 MiB), or `all_reduces`, the
    number of messages per step; `algorithm`, as for `Server.all_reduce_s`; `late`, the relative standard deviation of a
    rank's computation, which makes all wait for the slowest (`LATE`).
    """
    training = _Training(topology, nodes, model, batch, **options)
    return training.on(nodes, training.server.gpus, training.baseline)


def scaling(topology, nodes, model=None, batch=64, **options) -> list[Prediction]:
    """Predict steps on 1, 2, 4 … GPUs of a server, then on 2, 4 … servers up to `nodes`; options as for `cluster`."""
    training = _Training(topology, nodes, model, batch, **options)
    gpus = training.server.gpus
    counts = [(1, some) for some in _doubling(gpus)] + [(many, gpus) for many in _doubling(nodes)[1:]]
    return [training.on(many, each, training.baseline) for many, each in counts]


def _doubling(last):
    """Return 1, 2, 4 … and `last`."""
    return [*(1 << power for power in range(last.bit_length()) if 1 << power < last), last]
