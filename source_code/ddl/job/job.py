"""A job: a script, its arguments, and the options of a launch, each declared once.

The fields of `Job` are the only declaration of an option. `ddl run` takes it as ``--name`` (`add_options`), `launch` as
a keyword, and ``job.json`` records it. `ddl rerun` and the run's processes (`RunOptions`) read it from there.
"""

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddl.errors import CourseError
from ddl.job.tf_cluster_roles import CLUSTERS
from ddl.text import did_you_mean, printable

if TYPE_CHECKING:  # every rank imports this module
    import argparse

# Prefixes of the variables that the launcher sets, and the kernel's limit of one variable (MAX_ARG_STRLEN).
OF_LAUNCHER = (
    "DDL_RUN_",
    "DDL_RANKS_OF",
    "DDL_LAUNCHER_PIPE",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_",
    "HOROVOD_CROSS_",
    "HOROVOD_CONTROLLER",
    "HOROVOD_CPU_OPERATIONS",
    "HOROVOD_GLOO_RENDEZVOUS_",
    "HOROVOD_HOSTNAME",
)
LONGEST = 128 * 1024 - 256
MODULE = "-m "  # begins a script that is a module's name


class JobError(CourseError, ValueError):
    """A job that can't be run as asked for."""


RANKS, SUPERVISOR, LAUNCHER = "ranks", "supervisor", "launcher"


def option(default: Any, help: str, reaches: str, **rules: Any) -> Any:
    """Declare an option: its default, help text, and the last process that it `reaches`.

    An option that reaches the ranks is part of a printed line, because ranks of a pasted one have no ``job.json``.

    `rules` may have `least`, the smallest integer; `choices`; `short`, such as ``"-n"``; `metavar`; `inferred=True` for
    one that follows from the script if it is not given; and `terminal=False` for one that `ddl run` does not have.
    """
    return field(default=default, metadata={"help": help, "reaches": reaches, "terminal": True, **rules})


@dataclass(frozen=True)
class Job:
    """One launch. `args` of any type become text, and `cwd` is the working directory of every rank.

    JobError says what is wrong with a value and what it can be.
    """

    script: str
    args: tuple[str, ...] = ()
    cwd: str = "."
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    name: str = option(
        "", "The run's name in tables and figures. Runs with the same name are seeds of one configuration.", LAUNCHER
    )
    workers: int = option(
        2,
        "Number of ranks that train. Each has its own core or GPU unless `oversubscribe` is set.",
        SUPERVISOR,
        least=1,
        short="-n",
    )
    nodes: int | None = option(
        None,
        "Number of nodes, with the same number of workers on each. The default is as few as possible.",
        SUPERVISOR,
        least=1,
    )
    threads: int | None = option(
        None, "Threads per rank. By default the ranks share the cores equally.", RANKS, least=1
    )
    timeout_s: float | None = option(None, "End the run after this many seconds.", SUPERVISOR)
    oversubscribe: bool = option(False, "Allow more ranks than cores or GPUs.", SUPERVISOR)
    cluster: str = option(
        "horovod",
        '"horovod"; "multi_worker" or "parameter_server" for tf.distribute, which set TF_CONFIG in every rank; or '
        '"torchrun", which sets the variables that PyTorch\'s torchrun sets. "parameter_server" adds a coordinator '
        "(rank 0) and parameter servers (the last ranks). The default is what the script's imports ask for.",
        RANKS,
        choices=CLUSTERS,
        inferred=True,
    )
    parameter_servers: int | None = option(
        None, 'Number of parameter servers in a "parameter_server" cluster. Default 1.', RANKS
    )
    max_restarts: int = option(
        0,
        "When a rank fails, restart all ranks, up to this many times. A script that keeps checkpoints in its run's "
        "folder resumes from the last one. A run that fails twice at the same step for the same reason is not "
        "restarted.",
        SUPERVISOR,
        least=0,
    )
    elastic: bool = option(
        False,
        "Run a script for Horovod's elastic training, with up to `workers` ranks on this machine. "
        "Horovod replaces a rank that fails after some seconds, and looks for ranks to add or remove in "
        "discover_hosts.sh in the run's folder, which you can edit.",
        LAUNCHER,
    )
    debug: int | None = option(
        None,
        "Connect this rank to the terminal, so that breakpoint() and input() work in it while the others wait, and "
        "debug it if it raises an exception.",
        SUPERVISOR,
        least=0,
        metavar="RANK",
    )
    warm: bool | None = option(
        None,
        "Fork ranks from a process that has imported TensorFlow and Horovod. The default starts that process if the "
        "script may import them. Use False for a script that sets variables that TensorFlow reads when it is "
        "imported.",
        LAUNCHER,
        terminal=False,
    )

    def __post_init__(self) -> None:
        set_field = partial(object.__setattr__, self)
        if not isinstance(self.script, str):
            raise JobError(f"script must be a path or a name, got {self.script!r}")
        set_field("args", tuple(str(argument) for argument in self.args))
        for name, declared in OPTIONS.items():
            set_field(name, _converted(name, declared, getattr(self, name)))
        stem = self.module.rpartition(".")[2] or Path(self.script).stem
        set_field("name", self.name or stem)
        if self.parameter_servers is None:
            set_field("parameter_servers", int(self.cluster == "parameter_server"))
        for problem in self._problems():
            raise JobError(problem)

    def _problems(self) -> Iterator[str]:
        for text in (self.script, self.name, self.cwd, *self.args):
            if re.search("[\ud800-\udfff]", text):  # bytes that are not UTF-8
                yield f"{text!a} must be UTF-8 text: rename it, or pass it in a file"
        if re.search(r"[\t\n]", self.name) or printable(self.name) != self.name:
            yield f"name must not contain control characters, got {self.name!r}"
        for name, declared in OPTIONS.items():
            value, least = getattr(self, name), declared.metadata.get("least")
            if least is not None and value is not None and value < least:
                yield f"{name} must be an integer >= {least}, got {value!r}"
        if self.timeout_s is not None and not self.timeout_s > 0:  # NaN too
            yield f"timeout_s must be positive, got {self.timeout_s!r}"
        for name, value in self.env:
            texts = isinstance(name, str) and isinstance(value, str)
            if not texts or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or "\0" in value:
                yield f"env must map variable names to text, got {name!r}"
            elif name.startswith(OF_LAUNCHER):
                yield f"env must not contain {name}: the launcher sets it for each rank"
            elif len(value) > LONGEST:
                yield f"the value of {name} in env must have at most {LONGEST:,} characters, got {len(value):,}"
        if self.cluster not in CLUSTERS:
            known = ", ".join(CLUSTERS) + did_you_mean(str(self.cluster), CLUSTERS)
            yield f"cluster must be one of {known}; got {self.cluster!r}"
        servers = self.parameter_servers
        if self.cluster == "parameter_server" and (servers or 0) < 1:
            yield f"parameter_servers must be an integer >= 1, got {servers!r}"
        if self.cluster != "parameter_server" and servers != 0:
            yield f'parameter_servers={servers!r} needs cluster="parameter_server", not {self.cluster!r}'
        if self.debug is not None and self.debug >= self.ranks:
            yield f"debug must be a rank from 0 to {self.ranks - 1}, got {self.debug}"
        others = (self.cluster != "horovod", self.max_restarts, (self.nodes or 1) > 1, self.debug is not None)
        if self.elastic and any(others):
            yield 'elastic=True needs cluster="horovod" and one node, and excludes max_restarts and debug'

    @property
    def module(self) -> str:
        """The module's name if the script is one; else empty."""
        return self.script.removeprefix(MODULE) if self.script.startswith(MODULE) else ""

    @property
    def ranks(self) -> int:
        """Number of ranks: workers, a coordinator and parameter servers."""
        coordinator = int(self.cluster == "parameter_server")
        return coordinator + self.workers + (self.parameter_servers or 0)


def _converted(name: str, declared: dataclasses.Field, value: Any) -> Any:
    """Return an option's value as its declared type, also of NumPy's numbers; JobError names the option."""
    kind: Any = CONVERTERS.get(declared.type, declared.type)
    if value is None and declared.default is None:
        return None
    rules = {int: "an integer", float: "a number of seconds", bool: "True or False", str: "text"}
    rule = rules[kind]
    if kind is int and "least" in declared.metadata:
        rule += f" >= {declared.metadata['least']}"
    plain = value.item() if type(value).__module__ == "numpy" and not getattr(value, "shape", None) else value
    if type(plain) is kind or (kind is float and type(plain) is int):
        return plain
    raise JobError(f"{name} must be {rule}, got {value!r}")


OPTIONS = {each.name: each for each in dataclasses.fields(Job) if each.metadata}
CONVERTERS: dict[Any, type] = {int: int, int | None: int, float | None: float, bool | None: bool, str: str}


def add_options(parser: "argparse.ArgumentParser") -> None:
    """Add the options of a job to a command's parser."""
    for name, declared in OPTIONS.items():
        rules, words = declared.metadata, [f"--{name.replace('_', '-')}"]
        if not rules["terminal"]:
            continue
        if rules.get("short"):
            words.insert(0, rules["short"])
        help = rules["help"].replace("`", "").replace("%", "%%")
        if declared.type is bool:
            parser.add_argument(*words, action="store_true", help=help)
        else:
            known = {key: rules[key] for key in ("choices", "metavar") if key in rules}
            if not known:
                known["metavar"] = "TEXT" if declared.type is str else "N"
            default = None if rules.get("inferred") else declared.default
            parser.add_argument(*words, type=CONVERTERS[declared.type], default=default, help=help, **known)
