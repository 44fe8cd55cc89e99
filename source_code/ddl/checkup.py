"""What this machine has for the course, and what to do about what is missing."""

import os
import shutil
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

__all__ = ["Check", "Report", "doctor"]

CGROUP = Path("/sys/fs/cgroup")
SIGNS = {"OK": "✓", "missing": "✗", "optional": "–"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked for.

    Parameters
    ----------
    name : str
    state : {"OK", "missing", "optional"}
        Optional things are not here, and nothing in the course breaks without them.
    detail : str
        What was found.
    advice : str
        What to do; empty where nothing needs doing.
    """

    name: str
    state: str
    detail: str
    advice: str = ""

    def __post_init__(self):
        if self.state not in SIGNS:
            raise ValueError(f"state {self.state!r} is not one of: {', '.join(SIGNS)}")


@dataclass(frozen=True)
class Report:
    """All checks; prints as lines, shows as a table in a notebook."""

    checks: tuple[Check, ...]

    @property
    def ok(self):
        """Whether nothing that the course needs is missing."""
        return all(check.state != "missing" for check in self.checks)

    def _conclusion(self):
        missing = [check.name for check in self.checks if check.state == "missing"]
        if missing:
            return f"Not ready. First see to: {', '.join(missing)}."
        return "Ready: everything that the lessons need is here."

    def __repr__(self):
        width = max(len(check.name) for check in self.checks)
        lines = []
        for check in self.checks:
            name = f"{SIGNS[check.state]} {check.state:<8}  {check.name:<{width}}"
            lines.append(f"{name}  {check.detail}")
            if check.advice:
                lines.append(f"{'':{width + 12}}  → {check.advice}")
        return "\n".join([*lines, self._conclusion()])

    def _repr_html_(self):
        from ddl.view import STYLE

        rows = "".join(
            f"<tr><td>{SIGNS[check.state]}&nbsp;{check.state}</td><td>{escape(check.name)}</td>"
            f"<td>{escape(check.detail)}</td><td>{escape(check.advice)}</td></tr>"
            for check in self.checks
        )
        heads = "".join(f"<th>{head}</th>" for head in ("", "what", "found", "what to do"))
        return (
            f'{STYLE}<div class="ddl ddl-wide"><table class="ddl-doctor"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{rows}</tbody></table><b>{escape(self._conclusion())}</b></div>"
        )


def doctor():
    """Look at this machine: what the course needs, what it can use, and what is missing.

    Returns
    -------
    Report
        Its ``ok`` says whether all that is needed is here.
    """
    looks = (_cores, _memory, _gpus, _software, _horovod, _cifar10, _synthetic, _disk, _slurm,
             _containers, _inside)
    return Report(tuple(look() for look in looks))


def _cores():
    from ddl.site import usable_cores

    usable, whole = usable_cores(), os.cpu_count()
    detail = f"{usable} usable" + (f" of {whole}" if whole != usable else "")
    if usable >= 2:
        return Check("processor cores", "OK", detail)
    return Check("processor cores", "missing", detail,
                 "two workers need two; launch(..., oversubscribe=True) runs them on one, "
                 "slowly")


def _memory():
    gib = _available_memory_gib()
    detail = f"{gib:.1f} GiB available"
    if gib >= 3:
        return Check("memory", "OK", detail)
    return Check("memory", "missing", detail,
                 "two workers need about 3 GiB: close other programs and kernels")


def _available_memory_gib():
    """What can still be taken, by this machine's count and by the control group's limit."""
    import psutil

    available = psutil.virtual_memory().available
    try:
        limit = int((CGROUP / "memory.max").read_text())
        available = min(available, limit - int((CGROUP / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no limit ("max"), cgroup v1, or no cgroup
    return available / 2**30


def _gpus():
    from ddl.site import gpu_names

    names = gpu_names()
    if names:
        counts = {name: names.count(name) for name in dict.fromkeys(names)}
        return Check("GPUs", "OK", ", ".join(f"{n} × {name}" for name, n in counts.items()))
    return Check("GPUs", "optional", "none: workers run on processor cores")


def _software():
    from ddl.record import versions

    found = versions()
    detail = ", ".join(f"{name} {version or 'not installed'}" for name, version in found.items())
    needed = ("tensorflow", "horovod", "tensorflow_addons")
    missing = [name for name in needed if not found[name]]
    if missing:
        return Check("software", "missing", detail,
                     f"`make setup` installs {', '.join(missing)}")
    return Check("software", "OK", detail)


def _horovod():
    from ddl.horovodrun import built_with

    try:
        built = built_with()
    except (RuntimeError, ImportError, AttributeError) as problem:
        return Check("Horovod build", "missing", str(problem),
                     "`make setup` builds it again")
    with_, without = (
        [name for name in ("gloo", "mpi", "nccl", "cuda") if bool(built.get(name)) is there]
        for there in (True, False)
    )
    detail = f"with {', '.join(with_) or 'nothing'}; without {', '.join(without) or 'nothing'}"
    if "gloo" in with_:
        return Check("Horovod build", "OK", detail)
    return Check("Horovod build", "missing", detail,
                 "launching uses Gloo: build Horovod with HOROVOD_WITH_GLOO=1")


def _cifar10():
    entry = next(entry for entry in _listing() if entry.name == "cifar10")
    if entry.there:
        return Check("CIFAR-10", "OK", f"{entry.form}, {entry.samples:,} pictures, in {entry.path}")
    return Check("CIFAR-10", "optional", "not here: generated pictures stand in for it",
                 "`ddl data fetch cifar10`, or set DDL_DATA_DIR to a folder that has it")


def _synthetic():
    entry = next(entry for entry in _listing() if entry.name == "synthetic")
    if entry.there:
        return Check("generated pictures", "OK", f"in {entry.path}")
    return Check("generated pictures", "OK", "not made yet: the first run that needs them takes "
                 "some seconds longer")


def _listing():
    from ddl.data import listing

    return listing()


def _disk():
    from ddl.record import runs_dir

    folder = runs_dir()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    gib = shutil.disk_usage(there).free / 2**30
    detail = f"{gib:.1f} GiB free for runs in {folder}"
    if not os.access(there, os.W_OK):
        return Check("disk", "missing", f"{there} is not writable",
                     "set DDL_RUNS_DIR to a folder of yours")
    if gib < 1:
        return Check("disk", "missing", detail,
                     "delete old runs, or set DDL_RUNS_DIR to a larger disk")
    return Check("disk", "OK", detail)


def _slurm():
    if shutil.which("sinfo"):
        return Check("Slurm", "OK", "sinfo is here")
    return Check("Slurm", "optional", "not here: runs start on this machine")


def _containers():
    found = [name for name in ("docker", "podman", "apptainer", "singularity")
             if shutil.which(name)]
    if found:
        return Check("containers", "OK", ", ".join(found))
    return Check("containers", "optional", "none here, and none needed")


def _inside():
    marks = {"/.dockerenv": "Docker", "/run/.containerenv": "Podman",
             "/.singularity.d": "Singularity"}
    inside = [name for mark, name in marks.items() if Path(mark).exists()]
    where = f"in a {inside[0]} container" if inside else "not in a known container"
    return Check("this process", "OK", f"{where}, {sys.executable}")
