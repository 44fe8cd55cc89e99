"""Topologies recorded from published facts, one TOML file each, in the format of README.md there."""

import tomllib
from pathlib import Path

from course.machine.error import TopologyError
from course.machine.graph import Topology
from course.machine.parts import DEVICE_KINDS, Device, Network, NvLink, SocketLink, processors
from ddl.records.paths import reference_dir

FOLDER = reference_dir() / "topologies"

DEVICE = {
    **dict.fromkeys(("name*", "under", "model", "network"), str),
    **dict.fromkeys(("numa", "generation", "width"), int),
    **dict.fromkeys(("gb_per_s", "gbit_per_s", "memory_gib", "memory_gb_per_s"), float),
}
TOP = {"title*": str, "sources*": list, "notes": list, "all": dict, "network": dict}
TABLES = {  # keys, with a star if required, and types
    "socket": {
        **dict.fromkeys(("cores*", "numa", "threads_per_core"), int),
        **dict.fromkeys(("memory_gib", "memory_gb_per_s"), float),
        "model": str,
        "cache": list,
    },
    "cache": {"level*": int, "kib*": float, "kind": str, "cores": int},
    "socket_link": {"a*": int, "b*": int, "kind*": str, "count": int, "gb_per_s": float},
    **dict.fromkeys(DEVICE_KINDS, DEVICE),
    "nvlink": {"a*": list, "b*": list, "count": int, "generation": int},
    "network": {"kind*": str, "nics*": int, "gbit_per_s*": float},
}


def names():
    """Return the names of all recorded topologies."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def parse(text: str, name: str, file: str | Path) -> Topology:
    """Read a recorded topology. Raises TopologyError with `file` and the line or table if it is invalid."""
    try:
        return _topology(tomllib.loads(text), name)
    except tomllib.TOMLDecodeError as error:
        raise TopologyError(f"{file}: this is not TOML: {error}") from error
    except TopologyError as error:
        raise TopologyError(f"{file}: {error}") from error


def _topology(content, name):
    lists = {table: list for table in TABLES if table not in ("network", "cache")}
    _check(content, TOP | lists, "the file")
    common = content.get("all", {})
    _check(common, dict.fromkeys(lists, dict), "[all]")
    tables = {
        table: [
            _entry(table, entry, f"{table} {number}", common.get(table))
            for number, entry in enumerate(content.get(table, ()), 1)
        ]
        for table in lists
    }
    network = content.get("network")
    return Topology(
        name,
        "recorded from published facts",
        title=content["title"],
        network=Network(**_entry("network", network, "[network]")) if network is not None else None,
        sources=tuple(content["sources"]),
        notes=tuple(content.get("notes", ())),
        **_processors(tables["socket"]),
        devices=tuple(_device(kind, entry) for kind in DEVICE_KINDS for entry in tables[kind]),
        nvlinks=tuple(_nvlinks(tables["nvlink"])),
        socket_links=tuple(SocketLink(**entry) for entry in tables["socket_link"]),
    )


def _entry(table, entry, where, common=None):
    if not isinstance(entry, dict):
        raise TopologyError(f"{where} must be a table, got {entry!r}")
    entry = (common or {}) | entry
    _check(entry, TABLES[table], where)
    return entry


def _check(entry, types, where):
    needed = {key[:-1] for key in types if key.endswith("*")}
    types = {key.rstrip("*"): kind for key, kind in types.items()}
    if unknown := entry.keys() - types.keys():
        raise TopologyError(f"{where} has unknown keys: {', '.join(sorted(unknown))}; known: {', '.join(types)}")
    if missing := needed - entry.keys():
        raise TopologyError(f"{where} lacks {', '.join(sorted(missing))}")
    for key, value in entry.items():
        number = types[key] is float and type(value) is int
        if type(value) is not types[key] and not number:
            raise TopologyError(f"{where}: {key} = {value!r} is not of type {types[key].__name__}")
        if isinstance(value, int | float) and value < 0:
            raise TopologyError(f"{where}: {key} = {value!r} is below 0")


def _processors(entries):
    """Return sockets, NUMA nodes, cores and caches.

    Threads are numbered as usual in Linux: the first of each core over all sockets, then the second, and so on.
    """
    packages, nodes, cores, caches = {}, {}, [], []
    total = sum(entry["cores"] for entry in entries)
    for number, entry in enumerate(entries):
        where, count, parts = f"socket {number + 1}", entry["cores"], entry.get("numa", 1)
        if parts < 1 or count % parts:
            raise TopologyError(f"{where}: {count} cores cannot be divided into {parts} equal NUMA nodes")
        threads, each = total * max(1, entry.get("threads_per_core", 1)), count // parts
        own = [set(range(core, threads, total)) for core in range(len(cores), len(cores) + count)]
        cores += own
        packages[number] = entry.get("model", ""), set().union(*own)
        gib, gb_per_s = entry.get("memory_gib"), entry.get("memory_gb_per_s")
        memory = gib and int(gib * 2**30 / parts), gb_per_s and gb_per_s / parts
        for node in range(parts):
            nodes[len(nodes)] = set().union(*own[node * each : (node + 1) * each]), *memory
        for at, cache in enumerate(entry.get("cache", ()), 1):
            cache = _entry("cache", cache, f"{where}, cache {at}")
            facts = cache["level"], cache.get("kind", "unified"), int(cache["kib"] * 1024)
            shared = max(1, cache.get("cores", 1))
            caches += [(*facts, set().union(*own[low : low + shared])) for low in range(0, count, shared)]
    return processors(packages, nodes, cores, caches)


def _device(kind, entry):
    gib = entry.get("memory_gib")
    facts = {key: value for key, value in entry.items() if key != "memory_gib"}
    return Device(kind=kind, memory_bytes=gib and int(gib * 2**30), **facts)


def _nvlinks(entries):
    for entry in entries:
        for a in map(str, entry["a"]):
            for b in map(str, entry["b"]):
                yield NvLink(a, b, entry.get("count", 1), entry.get("generation"))
