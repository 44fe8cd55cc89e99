"""What to run: a script, its arguments, and how many workers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddl.errors import CourseError
from ddl.launcher.roles import CLUSTERS
from ddl.records.paths import source_dir
from ddl.words import did_you_mean, printable


class JobError(CourseError, ValueError):
    """A job cannot be run as it was asked for."""


@dataclass(frozen=True)
class Job:
    """One launch.

    Parameters
    ----------
    script
        Path of a Python script; any script for Horovod, tf.distribute or torchrun will do.
    args
        Its command-line arguments, passed on as they are.
    workers
        Number of ranks that compute, each with cores or a GPU of its own.
    cwd
        Working directory of every rank.
    name
        What tables and figures call this run; runs with one name are seeds of one arm.
    threads
        Threads per rank; None shares the cores out equally.
    timeout_s
        The run is ended after this many seconds; None never.
    oversubscribe
        Allow more ranks than there are cores or GPUs.
    nodes
        How many nodes the ranks are spread over, the same number on each; None the fewest.
    cluster : {"horovod", "multi_worker", "parameter_server", "torchrun"}
        What the ranks are to each other: Horovod's, a cluster of tf.distribute (`ddl.rank.cluster`), or a process
        group of PyTorch (`ddl.rank.torchrun`).
    parameter_servers
        Ranks that keep the weights of a "parameter_server" cluster; None one there, else none.
    warm
        Whether ranks may be forks of a template that has imported TensorFlow (`ddl.launcher.warm`): never PyTorch's.
    env
        Names and values of variables that are set for the ranks.
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
    warm: bool = True
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", tuple(str(argument) for argument in self.args))
        object.__setattr__(self, "name", self.name or Path(self.script).stem)
        for text in (self.script, self.name, self.cwd, *self.args):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise JobError(f"{text!a} is not text in UTF-8: rename it, or pass it in a file") from None
        if printable(self.name) != self.name:
            raise JobError(f"name={self.name!r}: control characters are not for names")
        for count in ("workers", "threads", "nodes"):
            value = getattr(self, count)
            if value is not None and (type(value) is not int or value < 1):
                raise JobError(f"{count}={value!r}: a whole number of at least 1 is needed")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise JobError(f"timeout_s={self.timeout_s!r}: seconds above 0 are needed, or None")
        for name, value in self.env:
            if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not isinstance(value, str) or "\0" in value:
                raise JobError(f"env: {name!r} cannot be set: a variable's name and a text are needed")
        if self.cluster not in CLUSTERS:
            known = ", ".join(CLUSTERS) + did_you_mean(str(self.cluster), CLUSTERS)
            raise JobError(f"cluster={self.cluster!r} is not one of: {known}")
        least = int(self.cluster == "parameter_server")
        servers = least if self.parameter_servers is None else self.parameter_servers
        if type(servers) is not int or servers < least:
            raise JobError(
                f"parameter_servers={servers!r}: a whole number of at least {least} is "
                f"needed with cluster={self.cluster!r}"
            )
        if servers and not least:
            raise JobError(
                f'parameter_servers={servers!r}: only cluster="parameter_server" has '
                f"any; this is cluster={self.cluster!r}"
            )
        object.__setattr__(self, "parameter_servers", servers)
        object.__setattr__(self, "warm", self.warm and self.cluster != "torchrun")

    @property
    def processes(self) -> int:
        """Number of ranks: the workers, and those that coordinate them or keep their weights."""
        coordinator = int(self.cluster == "parameter_server")
        return coordinator + self.workers + (self.parameter_servers or 0)


def resolve_script(script: str | Path, cwd: str | Path) -> str:
    """Return the absolute path of `script`, looked for in `cwd`, then in ``source_code/``.

    Raises
    ------
    JobError
        If it is in neither, or is a directory; the message lists the scripts that there are.
    """
    course = source_dir()
    for folder in (Path(cwd), course):
        path = folder / Path(script).expanduser()
        if path.is_dir():
            inside = ", ".join(sorted(file.name for file in path.glob("*.py")))
            raise JobError(
                f"{path} is a directory, not a script{f'; the scripts in it are: {inside}' if inside else ''}"
            )
        if path.is_file():
            return str(path.absolute())
    of_course = sorted(file.name for file in course.glob("*.py"))
    of_folder = sorted(file.name for file in Path(cwd).glob("*.py"))
    known = f"; the course's own scripts are: {', '.join(of_course) or 'none'}"
    hint = did_you_mean(str(script), [*of_folder, *of_course]) or known
    raise JobError(f"no script {str(script)!r} in {cwd} or in {course}{hint}")


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
