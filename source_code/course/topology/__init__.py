"""Topologies: the parts of a machine and the links between them.

    topology.here()                  # this machine
    topology.load("dgx-a100")        # a recorded one (see `names()`), or a file
    topology.compare([...])          # a table with a row for each machine
    topology.links()                 # a table of kinds of links with rates and sources
    topology.placements(machine)     # processors for two ranks, from near to far

Recorded topologies
-------------------
``results/reference/topologies/NAME.toml``, written from published facts. Your own file in the same format is loaded by
its path (``load("my-server.toml")``). Tables and keys ("*" marks the required ones):

    title* = "NVIDIA DGX-1 with eight Tesla V100"
    sources* = ["Who, year, title, section, table or figure; or a page's name and address"]
    notes = ["what is not in it, or not certain"]

    [[socket]]                  # one each, numbered from 0
    model = "Intel Xeon E5-2698 v4"
    cores* = 20
    threads_per_core = 2        # default 1
    numa = 1                    # equal NUMA nodes in it (default 1), numbered over all sockets
    memory_gib = 256            # of the socket
    memory_gb_per_s = 76.8      # of the socket
    cache = [{ level* = 3, kib* = 51200, cores = 20, kind = "unified" }]
                                # each so many cores (default 1) share one of this size

    socket_link = [{ a* = 0, b* = 1, kind* = "QPI", count = 2, gb_per_s = 19.2 }]
                                # gb_per_s of one, per direction

    [all.gpu]                   # what all of a kind have in common; works for each kind below
    model = "Tesla V100-SXM2-16GB"

    root = [{ name* = "root0", numa = 0 }]                       # root complexes
    switch = [{ name* = "plx0", under = "root0" }]               # PCIe switches
    gpu = [{ name* = "GPU0", under = "plx0", generation = 3, width = 16, memory_gib = 16,
             memory_gb_per_s = 900 }]                            # generation, width: of PCIe
    nic = [{ name* = "mlx5_0", under = "plx0", gbit_per_s = 100, network = "InfiniBand" }]
    nvswitch = [{ name* = "NVSwitch0" }]
    nvlink = [{ a* = ["GPU0"], b* = ["GPU1", "GPU2"], count = 1, generation = 2 }]
                                # each of a with each of b

    [network]                   # how such machines are joined in a cluster
    kind* = "InfiniBand EDR"
    nics* = 4                   # used for training, each
    gbit_per_s* = 100           # of each, per direction

Units: GB/s are 10^9 bytes per second and direction, Gbit/s are 10^9 bits per second, KiB and GiB are powers of two.
`Topology.network` is None if the file has no ``[network]``.
"""

import codecs
import math
import re
from pathlib import Path

from course.topology import hwloc, nvidia, recorded_machines
from course.topology.error import TopologyError
from course.topology.graph import Topology
from course.topology.link import links
from course.topology.local import here
from course.topology.placement import placements
from course.topology.recorded_machines import names
from ddl.text import did_you_mean

__all__ = ["Topology", "TopologyError", "compare", "here", "links", "load", "names", "placements"]


def load(name_or_path: str | Path) -> Topology:
    """Load a topology by its recorded name (see `names`) or from a file.

    A file is TOML in the format above, XML of ``lstopo --of xml``, or the text of ``nvidia-smi topo -m``.

    Raises TopologyError, with the line if possible, if the file is missing or invalid.
    """
    path = Path(name_or_path)
    if str(name_or_path) in names():
        path = recorded_machines.FOLDER / f"{name_or_path}.toml"
    if not path.exists() or path.is_dir():  # a pipe is also possible
        asked = str(name_or_path)
        known = ", ".join(names()) + did_you_mean(asked, names())
        raise TopologyError(f"{asked!r} is neither a file nor a recorded topology; recorded: {known}")
    text = _text(path)
    if path.suffix == ".toml":
        return recorded_machines.parse(text, path.stem, path.name)
    if path.suffix == ".xml" or re.match(r"\s*<(\?xml|!|topology)", text):
        return hwloc.parse(text.lstrip(), path.stem, path.name)
    return nvidia.parse(text, path.stem, path.name)


def _text(path):
    """Return the text of a file in UTF-8 or UTF-16, with or without a BOM."""
    data = path.read_bytes()
    encoding = "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in data[:2]:
        encoding = "utf-16-be" if data.startswith(b"\0") else "utf-16-le"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise TopologyError.at(path.name, None, f"this is not text in UTF-8 or UTF-16: {error}") from error


def compare(topologies):
    """Tabulate machines, given as `Topology` or as arguments of `load`.

    ``slowest_gb_per_s`` and ``fastest_gb_per_s`` refer to pairs of GPUs, nominal and per direction; NaN with fewer than
    two GPUs or if no rate is known. ``network_gb_per_s`` is the sum over the network cards for training.
    """
    from ddl.display.table import Table

    rows = []
    for topology in topologies:
        if not isinstance(topology, Topology):
            topology = load(topology)
        gpus = [gpu.name for gpu in topology.gpus]
        pairs = [topology.bandwidth(a, b) for a in gpus for b in gpus if a < b]
        pairs = [rate for rate in pairs if not math.isnan(rate)]
        cards = [nic.gbit_per_s for nic in topology.nics if nic.gbit_per_s]
        network = topology.network.gb_per_s if topology.network else sum(cards) / 8 or math.nan
        rows.append(
            {
                "machine": (topology.name, "machine", ""),
                "sockets": (len(topology.sockets) or math.nan, "sockets", ".0f"),
                "numas": (len(topology.numas), "NUMA nodes", "d"),
                "cores": (len(topology.cores) or math.nan, "cores", ",.0f"),
                "gpus": (len(gpus), "GPUs", "d"),
                "gpu": (next((gpu.model for gpu in topology.gpus if gpu.model), "–"), "GPU", ""),
                "slowest_gb_per_s": (min(pairs, default=math.nan), "slowest pair of GPUs, GB/s", ",.4g"),
                "fastest_gb_per_s": (max(pairs, default=math.nan), "fastest pair of GPUs, GB/s", ",.4g"),
                "network_gb_per_s": (network, "network, GB/s", ",.4g"),
                "origin": (topology.origin, "known from", ""),
            }
        )
    return Table.of(
        rows,
        "GB/s are 10^9 bytes per second and direction, and nominal, not measured. Network: all cards of a machine.",
    )
