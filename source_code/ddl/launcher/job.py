"""What to run: a script, its arguments, and how many workers."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ddl import plugins
from ddl.errors import CourseError
from ddl.launcher.roles import CLUSTERS
from ddl.words import did_you_mean, printable


class JobError(CourseError, ValueError):
    """A job cannot be run as it was asked for."""


@dataclass(frozen=True)
class Job:
    """One launch: what `ddl.launch` is asked for, and the working directory of every rank.

    Of `args` any value becomes text; without a `name` the script's counts; `parameter_servers` are one or none by
    default, as the cluster has it. JobError says what a wrong value can be.
    """

    script: str
    args: tuple[str, ...] = ()
    workers: int = 2
    cwd: str = "."
    name: str = ""
    threads: int | None = None
    timeout_s: float | None = None
    oversubscribe: bool = False
    nodes: int | None = None
    cluster: str = "horovod"
    parameter_servers: int | None = None
    max_restarts: int = 0
    min_workers: int | None = None
    elastic: bool = False
    discovery: str = ""
    warm: bool = True
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        set_field = partial(object.__setattr__, self)
        set_field("args", tuple(str(argument) for argument in self.args))
        set_field("name", self.name or Path(self.script).stem)
        set_field("warm", self.warm and self.cluster != "torchrun")
        if self.parameter_servers is None:
            set_field("parameter_servers", int(self.cluster == "parameter_server"))
        for problem in self._problems():
            raise JobError(problem)

    def _problems(self) -> Iterator[str]:
        for text in (self.script, self.name, self.cwd, *self.args):
            if re.search("[\ud800-\udfff]", text):  # bytes that are no UTF-8
                yield f"{text!a} is not text in UTF-8: rename it, or pass it in a file"
        if printable(self.name) != self.name:
            yield f"name={self.name!r}: a name cannot have control characters"
        for count in ("workers", "threads", "nodes"):
            value = getattr(self, count)
            if value is not None and (type(value) is not int or value < 1):
                yield f"{count}={value!r}: a whole number of at least 1 is needed"
        if type(self.max_restarts) is not int or self.max_restarts < 0:
            yield f"max_restarts={self.max_restarts!r}: a whole number of at least 0 is needed"
        if self.min_workers is not None:
            yield from self._problems_of_fewer(self.min_workers)
        if self.elastic:
            yield from self._problems_of_elastic()
        elif self.discovery:
            yield f"discovery={self.discovery!r}: only an elastic run discovers hosts: give elastic=True, too"
        if self.timeout_s is not None and not self.timeout_s > 0:
            yield f"timeout_s={self.timeout_s!r}: seconds above 0 are needed, or None"
        for name, value in self.env:
            if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not isinstance(value, str) or "\0" in value:
                yield f"env: {name!r} cannot be set: a variable's name and a text are needed"
        if self.cluster not in CLUSTERS:
            known = ", ".join(CLUSTERS) + did_you_mean(str(self.cluster), CLUSTERS)
            yield f"cluster={self.cluster!r} is not one of: {known}"
        servers = self.parameter_servers
        if self.cluster == "parameter_server":
            if type(servers) is not int or servers < 1:
                yield f"parameter_servers={servers!r}: a whole number of at least 1 is needed"
        elif servers != 0:
            yield f'parameter_servers={servers!r}: only cluster="parameter_server" has any, not {self.cluster!r}'

    def _problems_of_fewer(self, fewest: Any) -> Iterator[str]:
        if type(fewest) is not int or not 1 <= fewest <= self.workers:
            yield f"min_workers={fewest!r}: a whole number from 1 to workers={self.workers} is needed"
        elif not (self.max_restarts or self.elastic):
            yield f"min_workers={fewest!r}: only a restart can have fewer ranks: give max_restarts, too"
        elif self.cluster not in ("horovod", "torchrun"):
            yield f"min_workers={fewest!r}: the cluster of {self.cluster!r} always needs all its ranks"

    def _problems_of_elastic(self) -> Iterator[str]:
        if self.cluster != "horovod":
            yield f'elastic=True: only cluster="horovod" gains and loses ranks while it trains, not {self.cluster!r}'
        if self.max_restarts:
            yield f"max_restarts={self.max_restarts!r}: an elastic run replaces single ranks itself, without restarts"
        if (self.nodes or 1) > 1:
            yield f"nodes={self.nodes!r}: an elastic run has all its ranks on this machine"

    @property
    def processes(self) -> int:
        """Number of ranks: the workers, and those that coordinate them or keep their weights."""
        coordinator = int(self.cluster == "parameter_server")
        return coordinator + self.workers + (self.parameter_servers or 0)


def resolve_script(script: str | Path, cwd: str | Path) -> str:
    """Return the absolute path of `script`, looked for in `cwd`, then in `script_folders`.

    JobError, with the scripts that there are, if it is in neither or is a directory.
    """
    folders = script_folders()
    for folder in (Path(cwd), *folders):
        path = folder / Path(script).expanduser()
        if path.is_dir():
            inside = ", ".join(sorted(file.name for file in path.glob("*.py")))
            raise JobError(
                f"{path} is a directory, not a script{f'; the scripts in it are: {inside}' if inside else ''}"
            )
        if path.is_file():
            return str(path.absolute())
    known = sorted(file.name for folder in folders for file in folder.glob("*.py"))
    of_folder = sorted(file.name for file in Path(cwd).glob("*.py"))
    hint = did_you_mean(str(script), [*of_folder, *known]) or f"; scripts that are found by name: {', '.join(known)}"
    raise JobError(f"no script {str(script)!r} in {cwd} or among those that are found by name{hint}")


def resolve_discovery(discovery: str | Path | None, cwd: str | Path) -> str:
    """Return the absolute path of a host discovery script, looked for in `cwd`; empty where there is none.

    JobError if it is no file, or not executable.
    """
    if not discovery:
        return ""
    path = Path(cwd) / Path(discovery).expanduser()
    if not path.is_file():
        raise JobError(f"discovery={str(discovery)!r}: there is no such file in {cwd}")
    if not os.access(path, os.X_OK):
        raise JobError(f"discovery={str(discovery)!r} is not executable: `chmod +x {path}` makes it so")
    return str(path.absolute())


def script_folders() -> list[Path]:
    """Folders whose scripts are found by their names: this package's, and those of plugins."""
    own = Path(__file__).parents[1] / "scripts"
    return [own, *(folder for folders in plugins.each("script_folders") for folder in folders())]


def option_arguments(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Turn keyword options into command-line arguments.

    ``recipe="warmup", sync_bn=True, seed=None`` gives ``("--recipe", "warmup", "--sync-bn")``:
    True is a bare flag, False and None leave the option out, and a list gives several values.
    """
    arguments: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        arguments.append("--" + name.replace("_", "-"))
        if value is not True:
            several = value if isinstance(value, (list, tuple)) else [value]
            arguments.extend(map(str, several))
    return tuple(arguments)
