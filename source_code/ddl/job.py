"""What to run: a script, its arguments, and how many workers."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Job", "JobError", "option_arguments", "resolve_script"]


class JobError(ValueError):
    """A job cannot be run as it was asked for."""


@dataclass(frozen=True)
class Job:
    """One launch.

    Parameters
    ----------
    script : str
        Path of a Python script; any Horovod script will do.
    args : tuple of str
        Its command-line arguments, passed on as they are.
    workers : int
        Number of ranks (the world's size).
    cwd : str
        Working directory of every rank.
    name : str
        What tables and figures call this run; runs with one name are seeds of one arm.
    threads : int or None
        Threads per rank; None shares the cores out equally.
    timeout_s : float or None
        The run is ended after this many seconds; None never.
    oversubscribe : bool
        Allow more ranks than there are cores or GPUs.
    nodes : int or None
        How many nodes the ranks are spread over, the same number on each; None the fewest.
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

    def __post_init__(self):
        object.__setattr__(self, "args", tuple(str(argument) for argument in self.args))
        object.__setattr__(self, "name", self.name or Path(self.script).stem)
        for field in ("workers", "threads", "nodes"):
            value = getattr(self, field)
            if value is not None and (type(value) is not int or value < 1):
                raise JobError(f"{field}={value!r}: a whole number of at least 1 is needed")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise JobError(f"timeout_s={self.timeout_s!r}: seconds above 0 are needed, or None")


def resolve_script(script, cwd):
    """Return the absolute path of `script`, looked for in `cwd`, then in ``source_code/``.

    Raises
    ------
    JobError
        If it is in neither; the message lists the scripts of the course.
    """
    course = Path(__file__).resolve().parents[1]
    for folder in (Path(cwd), course):
        path = folder / Path(script).expanduser()
        if path.is_file():
            return str(path.absolute())
    known = ", ".join(sorted(file.name for file in course.glob("*.py"))) or "none"
    raise JobError(
        f"no script {str(script)!r} in {cwd} or in {course}; the course's own scripts are: {known}"
    )


def option_arguments(options):
    """Turn keyword options into command-line arguments.

    ``recipe="warmup", sync_bn=True, seed=None`` gives ``("--recipe", "warmup", "--sync-bn")``:
    True is a bare flag, False and None leave the option out.
    """
    arguments = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        arguments.append("--" + name.replace("_", "-"))
        if value is not True:
            arguments.append(str(value))
    return tuple(arguments)
