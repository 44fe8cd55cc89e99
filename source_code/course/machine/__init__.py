"""Topologies: the parts of a machine and the links between them.

    topology.here()                  # this machine
    topology.load("dgx-a100")        # a recorded one (see `names()`), or a file
    topology.links()                 # kinds of links with rates and sources

Recorded topologies are in ``results/reference/topologies/NAME.toml``, written from published facts; the README.md there
describes the format. Your own file in it is loaded by its path (``load("my-server.toml")``).

Units: GB/s are 10^9 bytes per second and direction, Gbit/s are 10^9 bits per second, KiB and GiB are powers of two.
"""

from pathlib import Path

from course.machine import nvidia, recorded_machines
from course.machine.error import TopologyError
from course.machine.graph import Topology
from course.machine.link import links
from course.machine.local import here
from course.machine.recorded_machines import names
from ddl import plugins
from ddl.text import did_you_mean

__all__ = ["Topology", "TopologyError", "here", "links", "load", "names"]


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
