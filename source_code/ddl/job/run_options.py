"""The options that a run's processes need, read from ``job.json`` in the run's folder, or from a pasted command line.

``python -m ddl.rank FOLDER`` reads ``job.json``, and the supervisors do the same. A line that a reader pastes into a
terminal has no folder, so it carries what its processes need: ``python -m ddl.rank --threads 2 train.py --epochs 3``.

Every rank imports this module: the standard library only. (argparse would take options of the script for its own.)
"""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddl.errors import InputError
from ddl.job.job import CONVERTERS, MODULE, OPTIONS, RANKS, Job, JobError
from ddl.job.tf_cluster_roles import Roles, assign_roles
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json

# Keeps the working folder off the path of the supervisor's `python -m`: a json.py there would hide the library's. With
# this value it was set by the launcher and not by the user, and ranks don't get it.
SAFE_PATH, OURS = "PYTHONSAFEPATH", "ddl"
# The options in a pasted line: for each rank, each task of Slurm, and the supervisor of hosts on this machine.
RANK_OPTIONS = tuple(name for name, each in OPTIONS.items() if each.metadata["reaches"] == RANKS)
TASK_OPTIONS = ("controller", "network_interface", *RANK_OPTIONS)
HOST_OPTIONS = ("nodes", "rate_mbit", "workers", *RANK_OPTIONS)


@dataclass(frozen=True)
class RunOptions(Job):
    """A job as its processes see it: with the number of nodes and threads, and the site's part.

    `variables` are the names of the job's variables, whose values are in the environment. `folder` is where the options
    were read from, empty for a pasted line.
    """

    nodes: int = 1
    threads: int = 1
    gpus_per_node: int = 0
    variables: tuple[str, ...] = ()
    terminal: str = ""
    controller: str = "gloo"
    network_interface: str = ""
    rate_mbit: int = 0
    folder: str = ""

    @classmethod
    def of_process(cls, words: Sequence[str] | None = None) -> "RunOptions":
        """Read this process's options from its command line, or from the folder named there; exit if that fails."""
        words = sys.argv[1:] if words is None else words
        try:
            return cls.read(words[0]) if words and not words[0].startswith("--") else cls.parse(words)
        except (InputError, JobError) as error:
            print(error, file=sys.stderr)
            sys.exit(2)

    @classmethod
    def read(cls, folder: str | Path) -> "RunOptions":
        """Read ``job.json`` in a run's folder; InputError if it is missing."""
        job = read_json(RunFolder(Path(folder)).job)
        if job is None:
            raise InputError(f"{folder} is not a run's folder: it has no job.json")
        return cls.of_job(job | {"folder": str(folder)})

    @classmethod
    def of_job(cls, job: Mapping[str, Any]) -> "RunOptions":
        """Return the options that a ``job.json`` describes."""
        known = {**job.get("site", {}), **job, "variables": tuple(job.get("env") or ())}
        names = [each.name for each in dataclasses.fields(cls) if each.name != "env"]
        return cls(**{name: known[name] for name in names if known.get(name) is not None})

    @classmethod
    def parse(cls, words: Sequence[str]) -> "RunOptions":
        """Read a pasted line; InputError if an option is unknown or not a number, or the script is missing."""
        rest, values = list(words), {}
        known: dict[str, Any] = {_flag(name): _field(name) for name in (*TASK_OPTIONS, *HOST_OPTIONS)}
        while len(rest) > 1 and rest[0].startswith("--"):
            flag, word, *rest = rest
            try:
                values[known[flag].name] = CONVERTERS.get(known[flag].type, known[flag].type)(word)
            except (KeyError, ValueError):
                raise InputError(f"invalid option {flag} {word}; the options are: {', '.join(known)}") from None
        if rest[:1] == [MODULE.strip()] and len(rest) > 1:
            rest[:2] = [MODULE + rest[1]]
        if not rest:
            raise InputError("a script is missing")
        return cls(script=rest[0], args=tuple(rest[1:]), **values)

    def words(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return these options, the script and its arguments for a command line; defaults are left out."""
        given = [(name, getattr(self, name)) for name in names]
        # Threads or nodes are always there: a line that begins with an option is not taken for a folder.
        needed = [
            (name, value)
            for name, value in given
            if name in ("threads", "nodes") or (value and value != _field(name).default)
        ]
        options = (word for name, value in needed for word in (_flag(name), str(value)))
        return (*options, *self.script_words)

    @property
    def script_words(self) -> tuple[str, ...]:
        """The script, or ``-m`` and its module, and its arguments."""
        return (*((MODULE.strip(), self.module) if self.module else (self.script,)), *self.args)

    @property
    def rank_command(self) -> tuple[str, ...]:
        """The command line of a rank in this process's environment."""
        return (sys.executable, "-m", "ddl.rank", *([self.folder] if self.folder else self.words(RANK_OPTIONS)))

    def roles(self, ranks: int | None = None) -> Roles:
        """Return the roles of this many ranks, by default all."""
        servers = self.parameter_servers or 0
        others = 1 + servers if self.cluster == "parameter_server" else 0
        return assign_roles(self.cluster, (ranks or self.ranks) - others, servers)


def _field(name: str) -> dataclasses.Field:
    return RunOptions.__dataclass_fields__[name]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
