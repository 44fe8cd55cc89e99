"""Topologies: the parts of a machine and the links between them.

    topology.here()                  # this machine
    topology.load("dgx-a100")        # a recorded one (see `names()`), or a file
    topology.compare([...])          # a table with a row for each machine
    topology.links()                 # a table of kinds of links with rates and sources
    topology.placements(machine)     # processors for two ranks, from near to far

Recorded topologies are in ``results/reference/topologies/NAME.toml``, written from published facts; the README.md there
describes the format. Your own file in it is loaded by its path (``load("my-server.toml")``).

Units: GB/s are 10^9 bytes per second and direction, Gbit/s are 10^9 bits per second, KiB and GiB are powers of two.
"""

import math
from pathlib import Path

from course.machine import nvidia, recorded_machines
from course.machine.error import TopologyError
from course.machine.graph import Topology
from course.machine.link import links
from course.machine.local import here, placements
from course.machine.recorded_machines import names
from ddl import plugins
from ddl.text import did_you_mean

__all__ = ["Topology", "TopologyError", "compare", "here", "links", "load", "names", "placements"]


def load(name_or_path: str | Path) -> Topology:
    """Load a topology by its recorded name (see `names`) or from a file.

    A file is TOML in the format above, or the text of ``nvidia-smi topo -m``.

    Raises TopologyError, with the line if possible, if the file is missing or invalid.
    """
    path = Path(name_or_path)
    if gone := plugins.removed(path.suffix):
        raise TopologyError(gone)
    if str(name_or_path) in names():
        path = recorded_machines.FOLDER / f"{name_or_path}.toml"
    if not path.exists() or path.is_dir():  # a pipe is also possible
        asked = str(name_or_path)
        known = ", ".join(names()) + did_you_mean(asked, names())
        raise TopologyError(f"{asked!r} is neither a file nor a recorded topology; recorded: {known}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path.name}: this is not text in UTF-8: {error}") from error
    if path.suffix == ".toml":
        return recorded_machines.parse(text, path.stem, path.name)
    return nvidia.parse(text, path.stem, path.name)


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
