"""Explanation of a failed run: the first cause, what became of the other ranks, and what to try."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ddl.follow.crash_report import CrashReport, Ending, name_ranks, stacks_of
from ddl.job.job import OPTIONS
from ddl.job.tf_cluster_roles import role_of
from ddl.records.jsonfiles import is_full
from ddl.records.log import last_lines
from ddl.records.stack import NO_TORCH, hidden_packages, hidden_sentence
from ddl.text import did_you_mean

# Slurm's job states that are not the script's fault, with advice.
SLURM_ENDS = {
    "OUT_OF_MEMORY": 'Try a smaller batch, fewer workers, or scheduler_arguments = ["--mem=..."] in the site file.',
    "TIMEOUT": "Raise time_limit in the site file, or train in parts with --checkpoint-every and --resume.",
    "DEADLINE": "Start it earlier.",
    "NODE_FAIL": "Start it again. If it fails again, tell the cluster's administrators which node it was.",
    "BOOT_FAIL": "Start it again.",
    "PREEMPTED": "Start it again, detached and with --checkpoint-every: then Slurm requeues it and it resumes.",
}

FULL = ("No space left on device", "Disk quota exceeded")  # the operating system's messages
MORE_ROOM = (
    "Delete files there (`df` and `df -i` show what is used up), or put runs (DDL_RUNS_DIR) or data sets "
    "(DDL_DATA_DIR) on another disk."
)
# In a message or a line of code, not in a script's path; or where semaphores are made.
OF_SHARED_MEMORY = re.compile(r"^(?!  File ).*(/dev/shm|shared memory|/torch_\d)|multiprocessing/synchronize\.py", re.M)
MORE_SHARED_MEMORY = (
    "Delete what ended programs have left in /dev/shm, or use less of it (fewer data-loading processes). Docker gives "
    "a container 64 MB: use --shm-size or --ipc=host."
)
MORE_THREADS = (
    "The limit of processes and threads is reached: end some, use fewer workers, or raise it (`ulimit -u`; in a "
    "container --pids-limit)."
)
LESS_MEMORY = "Try a smaller batch, fewer workers, or more backward passes per step."
OWN_GPU = (
    "NCCL needs a GPU for each rank. To share one, use PyTorch's gloo backend (--backend gloo in the course's scripts)."
)
SHARED_GPU = "Ranks share a GPU here: pin with gpus[hvd.local_rank() % len(gpus)]."
NO_GPU_KERNEL = (
    "This Horovod is built without GPU operations, so it cannot broadcast variables on a GPU in place: leave out "
    "inplace=True. docs/gpu.md tells how to build Horovod with NCCL."
)
OWN_NAME = (
    "This machine cannot find its own name, which this Horovod looks up. Add a line to /etc/hosts: 127.0.0.1 and what "
    "`hostname` prints. The Horovod that `make setup` compiles does not need it."
)
TORCHRUN = 'Launch a script for torch.distributed with cluster="torchrun" (ddl run --cluster torchrun).'
CPU_TORCH = 'This PyTorch is built for processors: use the device "cpu" and the backend "gloo".'
OFFLINE = "This machine cannot reach that host: copy the file to a folder here, and give the script its path."
# Advice by a part of the message.
BY_MESSAGE = {
    "No module named 'torch'": NO_TORCH,
    **dict.fromkeys(("environment variable RANK expected", "'LOCAL_RANK'", "'WORLD_SIZE'", "'RANK'"), TORCHRUN),
    "Extension horovod.torch has not been built": f"This Horovod was built without PyTorch. {TORCHRUN}",
    "Torch not compiled with CUDA enabled": CPU_TORCH,
    "have NCCL built in": CPU_TORCH,
    "Unable to find address for": OWN_NAME,
    "Duplicate GPU detected": OWN_GPU,
    "HorovodBroadcastInplaceResource": NO_GPU_KERNEL,
    "ncclCommInitRank failed: invalid usage": OWN_GPU,
    **dict.fromkeys(("can't start new thread", "Thread creation failed", "pthread_create failed"), MORE_THREADS),
    **dict.fromkeys(("Name or service not known", "failure in name resolution", "Network is unreachable"), OFFLINE),
}
FIX = "Fix the error in the last lines of the traceback, then run it again."
# Advice by the type of an exception or the name of a signal; empty if the message is enough.
ADVICE = {
    "SystemExit": "",
    "StorageError": MORE_ROOM,
    "ClusterError": "",
    "ModuleNotFoundError": "Install it into the environment of the python in the shell line.",
    "FileNotFoundError": "Relative paths start in the folder that the shell line changes to.",
    "MemoryError": LESS_MEMORY,
    "ResourceExhaustedError": LESS_MEMORY,
    "SIGKILL": "The usual cause is that the machine ran out of memory: try a smaller batch, fewer workers, or fewer "
    "samples.",
    "SIGSEGV": "A library crashed: look at the end of that rank's log.",
    "SIGABRT": "A library aborted: look at the end of that rank's log.",
    "SIGBUS": "A memory-mapped file ran out of space: check whether a disk or /dev/shm is full.",
}
# Errors if a script in the same folder has a package's name.
HIDDEN = re.compile(r"'(\w+)' is not a package|module '(\w+)' has no attribute|cannot import name '\w+' from '(\w+)'")
LOST_ADVICE = (
    "The ranks lost their connections before training began. Gloo accepts the first connection to its port, which may "
    "come from another program, such as a Jupyter server that polls kernels that have ended (one opened with `ddl lab` "
    "does not). Run it again; if that does not help, look at the other logs."
)
SECONDARY_ADVICE = "This rank lost its connection to another rank, which may have ended first: look at the other logs."
LEFT_ADVICE = (
    "Every rank must call the same collective operations equally often: look for a loop that is shorter on that rank "
    "(a smaller shard?) or an exit that only this rank takes."
)


@dataclass(frozen=True)
class Failure:
    """Why a run failed, in the order in which a reader needs it.

    `output` is the last lines that the rank printed; `status` is its exit status, or 128 plus a signal's number.
    """

    sentence: str
    output: tuple[str, ...] = ()
    status: int | None = None
    rank: int | None = None
    type: str | None = None
    message: str = ""
    traceback: str = ""
    others: str = ""
    advice: str = ""
    logs: tuple[Path, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """The sentences below the traceback: on the other ranks, advice, and where the logs are."""
        logs = "\n      ".join(map(str, self.logs))
        remarks = {"other ranks": self.others, "what to try": self.advice, "logs": logs}
        return [f"{title}: {text}" for title, text in remarks.items() if text]


def failure_of(e: CrashReport) -> Failure | None:
    """Return the first cause of a run's failure; None unless the run or one of its ranks has failed."""
    lost_checkpoint = bool(e.raised and e.raised.error["type"] == "StorageError")
    if e.state == "done" or (e.state == "stopped" and not lost_checkpoint):
        return None
    if e.state in ("failed", "lost", "stopped"):
        failure: Failure | None = _cause(e)
    else:  # a rank's error is shown while the others still run
        failure = _raised(e, e.raised) if e.raised else None
    if failure and (why_not := e.end.get("no_restart")):
        failure = replace(failure, sentence=f"{failure.sentence}; {why_not}")
    return failure and replace(failure, logs=e.logs)


def _cause(e: CrashReport) -> Failure:
    reason = e.end.get("reason")
    if e.end.get("slurm") in SLURM_ENDS:
        return _ended_by_slurm(e)
    if reason == "timeout":
        return _timed_out(e)
    if reason == "launcher killed":
        advice = "If you did not do this, the machine may be out of memory."
        return Failure(f"the launcher was killed by {e.end['signal']}", advice=advice)
    before_ranks = reason == "launch" and not any(ending.error for ending in e.endings)
    if not before_ranks and e.state != "lost" and (failure := _of_ranks(e)):
        return failure
    if is_full(e.folder.path):
        sentence = f"the disk that holds {e.folder.path} is full, and nothing else could be recorded"
        return Failure(sentence, type="storage", advice=MORE_ROOM)
    if e.state == "lost":
        advice = "Its machine may have been switched off, or its launcher killed. Start it again."
        return Failure("the run's processes are gone, and none of them recorded why", advice=advice)
    if before_ranks:
        advice = _advice_on(e.end["message"])
        return Failure(
            f"the launcher failed before any rank ran: {e.end['message']}",
            message=e.end["message"],
            traceback="" if advice else e.end.get("log", ""),
            advice=advice or "`ddl doctor` shows what is missing.",
        )
    return Failure("the run failed and no rank said why", advice="See the launcher's log.")


def _ended_by_slurm(e: CrashReport) -> Failure:
    where = f" on {e.end['nodes']}" if e.end.get("nodes") else ""
    return Failure(
        f"Slurm ended job {e.end['job']}{where}: {e.end['slurm']}",
        type=e.end["slurm"],
        traceback=e.raised.error["traceback"] if e.raised else "",
        advice=SLURM_ENDS[e.end["slurm"]],
    )


def _timed_out(e: CrashReport) -> Failure:
    missing = e.end.get("missing") or []
    gone = [rank for rank in missing if rank in e.exits and not e.exits[rank]["code"]]
    timeout_s = e.end.get("timeout_s") or e.job.get("timeout_s")
    sentence = "the run was ended at its time limit" + (f" of {timeout_s:g} s" if timeout_s else "")
    advice = "Increase timeout_s, or see in the stacks where the ranks were."
    if missing:
        sentence += f": the others were waiting for {name_ranks(missing)}"
        advice = "Every rank must call the same collective operations in the same order."
    if gone:
        sentence += f"; {name_ranks(gone)} had ended before, with status 0"
        advice = LEFT_ADVICE
    return Failure(
        sentence,
        output=tuple(last_lines(e.folder.log(gone[0]))) if gone else (),
        rank=(gone or missing)[0] if missing else None,
        type="timeout",
        traceback=stacks_of(e.folder, missing) or stacks_of(e.folder, range(e.world)),
        advice=advice,
    )


def _of_ranks(e: CrashReport) -> Failure | None:
    """Return the failure of the rank that failed first and not just because of another one; None if no rank failed."""
    bad = [ending for ending in e.endings if ending.bad]
    if not bad:
        return None
    first = next((ending for ending in bad if not ending.secondary), None)
    left = next((ending for ending in e.endings if not ending.bad), None)
    if left and not first:
        return _left_early(e, left, bad)
    first = first or bad[0]
    if first.error:
        return _raised(e, first)
    return _killed(e, first) if first.signal else _exited(e, first)


def _left_early(e: CrashReport, left: Ending, bad: list[Ending]) -> Failure:
    noticed = next((ending for ending in bad if ending.error), None)
    return _of_rank(
        e,
        left,
        f"ended with status 0 {e.when(left)}, while others still waited for it",
        type="left",
        status=bad[0].code,
        traceback=f"rank {noticed.rank} noticed here:\n{noticed.error['traceback']}" if noticed else "",
        advice=LEFT_ADVICE,
    )


def _raised(e: CrashReport, first: Ending) -> Failure:
    error, output, status = first.error, first.output, first.code
    message, advice = "", SECONDARY_ADVICE if first.secondary else ADVICE.get(error["type"], FIX)
    refused = re.fullmatch(r"\S+: error: (.+)", output[-1]) if output else None  # argparse's last line
    if any(sign in error["message"] for sign in FULL):
        shared = OF_SHARED_MEMORY.search(f"{error['message']}\n{error['traceback']}")
        did, advice = ("shared memory", MORE_SHARED_MEMORY) if shared else ("disk", MORE_ROOM)
        did, message = f"found its {did} full", f": {error['message']}"
    elif error["type"] != "SystemExit":
        did = f"raised {error['type']}"
    elif refused and status == 2:
        did = f"refused its options ({refused[1]}{_suggestion(refused[1], output[:-1])})"
        output = output[-1:]  # without the usage
    else:
        # sys.exit("message") explains itself; for a bare status, the rank's last lines may.
        did = "exited with an error" if error["traceback"] else f"exited with status {status}"
        message = f": {error['message'].splitlines()[0]}" if error["traceback"].strip() else ""
    return _of_rank(
        e,
        first,
        f"{did} {e.when(first)}{message}",
        output=output,
        type=error["type"],
        message=error["message"],
        traceback=error["traceback"],
        advice=_special_advice(e, first) or advice,
    )


def _special_advice(e: CrashReport, first: Ending) -> str:
    """Return advice about an exception that depends on its message or on the script's name; empty if there is none."""
    error = first.error
    if error["type"] == "BdbQuit" and e.job.get("debug") == first.rank:
        return "You ended this rank in the debugger."
    if error["type"] in ("EOFError", "BdbQuit", "NoKeyboard"):
        return f"Ranks have no keyboard. `ddl run --debug {first.rank}` gives this rank your terminal."
    if error["type"] in ("ModuleNotFoundError", "AttributeError", "ImportError") and (
        found := HIDDEN.search(error["message"])
    ):
        hiding = Path(e.job.get("script", "")).with_name(f"{found[1] or found[2] or found[3]}.py")
        if hiding.is_file():
            return f"Rename {hiding}: its name hides the package {hiding.stem!r}."
    for name, folder in hidden_packages().items():
        if f'"{folder.rstrip("/")}/{name}' in error["traceback"]:
            return f"{hidden_sentence(name, folder)}."
    if error["type"] == "IndexError" and "local_rank" in error["traceback"]:
        return SHARED_GPU
    return _advice_on(error["message"])


def _advice_on(message: str) -> str:
    """Return the advice for a part of a message; empty if there is none."""
    return next((advice for sign, advice in BY_MESSAGE.items() if sign in message), "")


def _suggestion(why: str, usage: Iterable[str]) -> str:
    """Return a suggestion for the unknown option in an error of argparse: an option of the script or of the launch."""
    option = re.match(r"unrecognized arguments: (-[\w-]+)(?!.*did you mean)", why)
    if not option:
        return ""
    launch_flags = [f"--{name.replace('_', '-')}" for name in OPTIONS]
    if option[1] in launch_flags:
        return ": it is an option of `ddl run`, where it comes before the script"
    return did_you_mean(option[1], [*re.findall(r"--[\w-]+", " ".join(usage)), *launch_flags])


def _killed(e: CrashReport, first: Ending) -> Failure:
    lost = first.secondary and not e.events and not role_of(e.job, first.rank)
    uncaught = next((line for line in reversed(first.output) if "what():" in line), "")  # a C++ exception
    message = re.sub(r"^\s*what\(\):\s*(\[\S+:\d+\] )?", ": ", uncaught).rstrip()
    return _of_rank(
        e,
        first,
        f"was killed by {first.signal} {e.when(first)}{message}",
        type=first.signal,
        traceback=stacks_of(e.folder, sorted(range(e.world), key=lambda rank: rank != first.rank)),
        advice=_advice_on(uncaught) or (LOST_ADVICE if lost else ADVICE.get(first.signal, "")),
    )


def _exited(e: CrashReport, first: Ending) -> Failure:
    if is_full(e.folder.path):  # a rank that cannot open its log records no exception
        full = f"exited with status {first.code} {e.when(first)}, and the disk that holds {e.folder.path} is full"
        return _of_rank(e, first, full, type="storage", advice=MORE_ROOM)
    advice = "" if first.output else "The end of its log may say more."
    return _of_rank(e, first, f"exited with status {first.code} {e.when(first)}, and no exception", advice=advice)


def _of_rank(e: CrashReport, first: Ending, became: str, **fields: Any) -> Failure:
    """Return a failure caused by a rank, with its host and the last lines that it printed."""
    host = first.host or first.error.get("host", "")
    defaults = {"output": first.output, "status": first.code, "rank": first.rank}
    on = f" on {host}" if host else ""
    return Failure(f"{e.who(first.rank)}{on} {became}", others=e.others(first), **{**defaults, **fields})
