'''What a machine is made of and how its parts are joined: found out here, or loaded from a file.

    topology.here()                  # this machine
    topology.load("dgx-a100")        # a recorded one (`names()` lists them), or a file
    topology.compare([...])          # a table, a row a machine
    topology.links()                 # a table of kinds of links, with their figures and sources

Recorded topologies
-------------------
``results/reference/topologies/NAME.toml``, written from published facts. A file of one's own in the
same format is loaded by its path (``load("my-server.toml")``). Tables and keys, where "*" marks
those that have to be there:

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

Units: GB/s are 10^9 bytes a second and per direction, Gbit/s are 10^9 bits a second, KiB and GiB
are powers of two. `Topology.network` is None where the file has no ``[network]``.
'''

from pathlib import Path

from ddl.topology.error import TopologyError
from ddl.topology.graph import Topology
from ddl.topology.link import links
from ddl.topology.recorded import FOLDER, names, parse

__all__ = ["Topology", "TopologyError", "links", "load", "names"]


def load(name_or_path):
    """Load a topology.

    Parameters
    ----------
    name_or_path : str or Path
        A recorded name (see `names`), or a ``.toml`` file.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If there is no such name or file, or it cannot be read; says in which line where it can.
    """
    path = Path(name_or_path)
    if str(name_or_path) in names():
        path = FOLDER / f"{name_or_path}.toml"
    if not path.is_file():
        raise TopologyError(f"{str(name_or_path)!r} is neither a file nor a recorded topology; "
                            f"recorded: {', '.join(names())}")
    return parse(path.read_text(encoding="utf-8"), path.stem, path.name)
