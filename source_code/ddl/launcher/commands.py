"""The commands that a planned line is made of, written and read: ``-m MODULE [OPTIONS] COMMAND``.

Every rank imports this: the standard library only. (argparse would take options of the script for its own.)
"""

import shlex
import sys
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from ddl.errors import InputError

if TYPE_CHECKING:
    from typing import Self  # from Python 3.11 on

# Ranks that import on a busy or cold machine can start minutes apart; Gloo's own limit is 30 s.
GLOO_TIMEOUT_S = 180
# How long Horovod leaves a host alone on which a rank of an elastic run failed: it begins with the first of these
# seconds, doubles with each failure, and never exceeds the second. Without them the host is never used again.
COOLDOWN_S = (1, 60)


@dataclass(frozen=True, kw_only=True)
class _Command:
    """Fields are options (``rate_mbit``: ``--rate-mbit``), left out at their defaults; `command` follows them."""

    module: ClassVar[str]
    command: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """What follows the interpreter on a line."""
        words = ["-m", self.module]
        for name, field in self._options().items():
            value = getattr(self, field.name)
            if value != field.default:
                words += [name, f"{value:.15g}" if isinstance(value, float) else str(value)]
        return (*words, *self.command)

    @classmethod
    def parse(cls, words: Iterable[str]) -> "Self":
        """Read the words after the module's name; InputError if an option is unknown, missing or not a number."""
        rest, values = list(words), {}
        options = cls._options()
        while len(rest) > 1 and rest[0].startswith("--"):
            name, word, *rest = rest
            if name not in options:
                raise InputError(f"{name} is not an option of {cls.module}; there are: {', '.join(options)}")
            kind: Any = options[name].type
            try:
                values[options[name].name] = kind(word)
            except ValueError:
                raise InputError(f"{cls.module} {name} {word!r}: a number is needed") from None
        missing = [name for name, field in options.items() if field.default is MISSING and field.name not in values]
        if missing:
            raise InputError(f"{cls.module} needs {' and '.join(missing)}")
        return cls(**values, command=tuple(rest))

    @classmethod
    def within(cls, words: Iterable[str]) -> "Self":
        """Read this module's command where it stands in a longer line."""
        words = list(words)
        return cls.parse(words[words.index(cls.module) + 1 :])

    @classmethod
    def of_this_process(cls) -> "Self":
        """Read this process' own command; one that can't be read ends it, with the reason."""
        try:
            return cls.parse(sys.argv[1:])
        except InputError as error:
            print(error, file=sys.stderr)
            sys.exit(2)

    @classmethod
    def _options(cls) -> dict[str, Field]:
        own_first = sorted(fields(cls), key=lambda field: field.name not in cls.__annotations__)
        return {f"--{field.name.replace('_', '-')}": field for field in own_first if field.name != "command"}


@dataclass(frozen=True, kw_only=True)
class RankCommand(_Command):
    """One rank: ``--threads N [--cluster NAME] [--parameter-servers N] [--start cold] SCRIPT [ARGUMENT ...]``."""

    module = "ddl.rank"
    threads: int
    cluster: str = "horovod"
    parameter_servers: int = 0
    start: str = "warm"  # from a template (`ddl.launcher.warm`), where there is one; else "cold"

    def __post_init__(self) -> None:
        if not self.command:
            raise InputError(f"{self.module} needs a script")

    @property
    def script(self) -> str:
        return self.command[0]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The script's."""
        return self.command[1:]

    def workers(self, processes: int) -> int:
        """How many of all ranks compute: not the coordinator, nor the parameter servers."""
        return processes - (1 + self.parameter_servers if self.cluster == "parameter_server" else 0)


@dataclass(frozen=True, kw_only=True)
class SupervisorCommand(_Command):
    """What looks after ranks: ``[--timeout-s S] [--max-restarts N] [--min-workers N]``."""

    timeout_s: float = 0.0  # none
    max_restarts: int = 0
    min_workers: int = 0  # as many as at first


@dataclass(frozen=True, kw_only=True)
class TaskCommand(SupervisorCommand):
    """What looks after one rank: ``--controller NAME [--network-interface NAME]``."""

    module = "ddl.rank.task"
    controller: str  # "none": tf.distribute or PyTorch brings the ranks together
    network_interface: str = ""


@dataclass(frozen=True, kw_only=True)
class HostsCommand(SupervisorCommand):
    """All ranks, on several hosts made on one machine: ``--hosts N --rate-mbit N --processes N``."""

    module = "ddl.rank.hosts"
    hosts: int
    rate_mbit: int
    processes: int


@dataclass(frozen=True, kw_only=True)
class OneHostCommand(SupervisorCommand):
    """All ranks of one host: ``--processes N``."""

    module = "ddl.rank.one_host"
    processes: int

    @property
    def horovodrun(self) -> tuple[str, ...]:
        """Options and command of the stock horovodrun that trains the same."""
        return (*_stock_options(self.processes), *self.command)


@dataclass(frozen=True, kw_only=True)
class ElasticCommand(SupervisorCommand):
    """All ranks of Horovod's elastic run, on this host: ``--processes N --discovery FILE``, N the most at a time."""

    module = "ddl.rank.elastic"
    processes: int
    discovery: str  # the script's absolute path

    @property
    def fewest(self) -> int:
        """How many ranks the run waits for, at first and after a failure."""
        return self.min_workers or 1

    @property
    def horovodrun(self) -> tuple[str, ...]:
        """Options and command of the stock horovodrun that trains the same."""
        return (
            *_stock_options(self.fewest),
            *("--min-np", str(self.fewest), "--max-np", str(self.processes)),
            *("--blacklist-cooldown-range", *map(str, COOLDOWN_S)),
            *("--host-discovery-script", shlex.quote(self.discovery)),  # a line for a shell
            *self.command,
        )


def _stock_options(processes: int) -> tuple[str, ...]:
    # All ranks are on this host. Left to itself, horovodrun takes any interface that is up, and a laptop's may go away
    # in the middle of a run; or it waits for a second host, to look for common ones.
    fixed = ("--gloo", "--network-interfaces", "lo", "--gloo-timeout-seconds", str(GLOO_TIMEOUT_S))
    return (*fixed, "-np", str(processes))
