"""Checks of this machine and its site, with advice on what is missing."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib.util import find_spec

from ddl import plugins
from ddl.diagnose.report import Check, Report, missing
from ddl.errors import CourseError

PARTS = ("gloo", "mpi", "nccl", "cuda")  # that Horovod may be built with


def doctor(site=None, submit: bool = False) -> Report:
    """Check whether this machine and its site have everything that runs need.

    `site` is a site or the path of its file; the default is ``Site.here()``. With `submit`, also launch a run of two
    ranks through the site.
    """
    from ddl.diagnose.site import checks, two_ranks
    from ddl.job.site import Site
    from ddl.records.stack import hidden_packages, hidden_sentence

    if hidden := hidden_packages():  # imports would fail in the checks below
        name, folder = next(iter(hidden.items()))
        return Report((missing("PYTHONPATH", f"it hides {', '.join(hidden)}", hidden_sentence(name, folder)),))
    try:
        site = site if isinstance(site, Site) else Site.here(site)
    except CourseError as error:
        advice = "fix this first (containers/sites/README.md lists all keys); the checks below cover only this machine"
        return Report((missing("site", str(error), advice), *_machine(Site())))
    ran = [two_ranks(site)] if submit else []
    return Report((*checks(site), *_machine(site), *ran))


def _machine(site):
    """Check this machine; its devices only if ranks run on it."""
    devices = [] if site.scheduler == "slurm" else [_cores(), _memory(), _gpus(site), _hosts(site)]
    software = [_software(), _horovod(site)]
    if site.enters_container:
        software = [
            replace(check, state="optional", advice="", detail=f"{check.detail}; ranks use the image's")
            if check.state == "missing"
            else check
            for check in software
        ]
    return (
        *_addresses(),
        *devices,
        *software,
        *(check for checks in plugins.each("checks") for check in checks()),
        _disk(),
        _inside(),
    )


def _addresses():
    """Try the address where local ranks meet, and this machine's name, which other builds of Horovod look up."""
    import socket

    from ddl.records.machine import host_name

    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
    except OSError as error:
        advice = "ranks meet there: as root, `ip link set lo up && ip address add 127.0.0.1/8 dev lo`"
        yield missing("127.0.0.1", error.strerror or str(error), advice)
    try:
        address = socket.getaddrinfo(host_name(), 0, socket.AF_INET, socket.SOCK_STREAM)[0][4]
        with socket.socket() as probe:
            probe.bind(address)
    except OSError as error:
        detail = f"{host_name()} is not an address of this machine ({error.strerror or error})"
        advice = f"if an image's Horovod aborts, add the line 127.0.0.1 {host_name()} to /etc/hosts"
        yield Check("host name", "optional", detail, advice)


def _cores():
    from ddl.job.site import usable_cores

    usable, whole = usable_cores(), os.cpu_count()
    detail = f"{usable} usable" + (f" of {whole}" if whole != usable else "")
    if usable >= 2:
        return Check("processor cores", "OK", detail)
    return missing(
        "processor cores", detail, "two workers need two; with launch(..., oversubscribe=True) they share one"
    )


def _memory():
    from ddl.records.machine import available_bytes

    gib = available_bytes() / 2**30
    detail = f"{gib:.1f} GiB available"
    if gib >= 3:
        return Check("memory", "OK", detail)
    return missing("memory", detail, "two workers need about 3 GiB; close other programs and kernels")


def _gpus(site):
    from ddl.job.site import gpu_names, gpu_problem
    from ddl.records import stack
    from ddl.records.machine import gpu_capabilities
    from ddl.text import plural

    names, problem = gpu_names(), gpu_problem()
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    found = ", ".join(f"{n} × {name}" for name, n in counts.items())
    if problem:
        detail = f"{found}; nvidia-smi: {problem}" if found else f"nvidia-smi: {problem}"
        if stack.for_processors():
            return Check("GPUs", "optional", f"{detail}; TensorFlow here is built for processors")
        advice = "after a new driver, restart the machine; CUDA_VISIBLE_DEVICES=-1 runs workers on processor cores"
        return missing("GPUs", detail, advice)
    if not names:
        return Check("GPUs", "optional", "none: workers run on processor cores")
    if stack.for_processors():
        advice = "`DDL_ACCELERATOR=gpu make setup` installs the one for GPUs"
        return Check("GPUs", "optional", f"{found}; but TensorFlow here is built for processors", advice)
    newest = max(gpu_capabilities(), default=(0, 0))
    if newest >= stack.TOO_NEW and stack.name() == "default":
        detail = f"{found}: compute capability {newest[0]}.{newest[1]} is too new for TensorFlow 2.15"
        return missing("GPUs", detail, "`DDL_ACCELERATOR=cpu make setup` installs TensorFlow for processor cores")
    if site.gpus_per_node == 1:
        found += f": {_two_workers()}"
    elif site.gpus_per_node:
        found += f": one per rank, up to {plural(site.gpus_per_node, 'rank')}"
    return Check("GPUs", "OK", found)


def _two_workers():
    from ddl.start.devices import horovod_has_nccl

    if horovod_has_nccl():
        return "one worker uses it; two run on processor cores, as NCCL needs a GPU for each"
    return "two workers share it"


def _software():
    from ddl.records import stack
    from ddl.records.machine import version_of, versions

    found, which = versions(), stack.name()
    needed = [name for needs in plugins.each("needs") for name in needs()]
    listed = {name: version for name, version in found.items() if version or name in needed}
    detail = ", ".join(f"{name} {version or 'not installed'}" for name, version in listed.items())
    if not needed:  # the launcher alone
        listed |= {name: version for name in ("torch", "jax") if (version := version_of(name))}
        return Check("software", "OK", ", ".join(f"{name} {version}" for name, version in listed.items()))
    detail += f": the {which} stack"
    if lacking := [name for name in needed if not found.get(name)]:
        return missing("software", detail, f"`make setup` installs {', '.join(lacking)}")
    if problem := stack.wrong_keras():
        return missing("software", detail, problem)
    return Check("software", "OK", detail)


def _horovod(site):
    controller = site.controller
    if find_spec("horovod") is None:
        return Check("Horovod build", "optional", "Horovod is not installed", "only scripts for Horovod need it")
    with_, problem = horovod_build()
    if problem:
        advice = "remove this Horovod and its cached wheel, then run `make setup` again"
        return missing("Horovod build", f"Horovod cannot be loaded: {problem}", advice)
    without = [name for name in PARTS if name not in with_]
    detail = f"with {', '.join(with_) or 'nothing'}; without {', '.join(without) or 'nothing'}"
    if controller in with_:
        slow = site.gpus_per_node > 1 and "nccl" not in with_
        advice = "gradients of GPUs go through host memory; docs/gpu.md tells how to build Horovod with NCCL"
        return Check("Horovod build", "OK", detail, advice if slow else "")
    return missing(
        "Horovod build",
        detail,
        f'this site uses controller = "{controller}"; build Horovod with HOROVOD_WITH_{controller.upper()}=1',
    )


@cache
def horovod_build() -> tuple[list[str], str]:
    """Return which of `PARTS` Horovod was built with, and why it cannot be loaded; either is empty.

    Another process loads it, for TensorFlow or else for PyTorch.
    """
    problem = ""
    for framework in ("tensorflow", "torch"):
        code = f"import horovod.{framework} as hvd; print(*(n for n in {PARTS} if getattr(hvd, n + '_built')()))"
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if answer.returncode == 0:
            return answer.stdout.splitlines()[-1].split(), ""
        problem = problem or answer.stderr.strip().splitlines()[-1]
    return [], problem


def _disk():
    from ddl.records.paths import runs_dir

    folder = runs_dir()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    gib = shutil.disk_usage(existing).free / 2**30
    detail = f"{gib:.1f} GiB free for runs in {folder}"
    if not os.access(existing, os.W_OK):
        return missing("disk", f"{existing} is not writable", "set DDL_RUNS_DIR to a folder that you can write to")
    if gib < 1:
        return missing("disk", detail, "delete old runs, or set DDL_RUNS_DIR to a larger disk")
    return Check("disk", "OK", detail)


def _hosts(site):
    from ddl.start import netns_hosts as hosts

    name, reason = "several hosts", hosts.permitted()
    if not reason:
        return Check(name, "OK", "this machine can simulate several hosts with a slow network between them")
    detail = f"this machine can't simulate them: {reason}"
    if site.scheduler == "namespaces":
        return missing(name, detail, 'scheduler = "local" runs all ranks on this machine')
    return Check(name, "optional", detail, "the lesson shows recorded runs instead")


def _inside():
    from ddl.records.machine import container_around

    kind = container_around()
    where = f"in a {kind.capitalize()} container" if kind else "not in a known container"
    return Check("this process", "OK", f"{where}, {sys.executable}")
