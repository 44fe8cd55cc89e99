"""Why a run failed, found in the files of its folder: the first cause, then the rest."""

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from ddl.cluster import role_of
from ddl.record import processes_of, read_json, stack_of

__all__ = ["SLURM_ENDS", "Failure", "failure_of"]

# What ranks raise that merely notice that another one is gone: Horovod's, then tf.distribute's.
SECONDARY = ("HorovodInternalError", "Horovod has been shut down", "Connection reset by peer",
             "Connection closed by peer", "UnavailableError", "Collective ops is aborted by",
             "The error could be from a previous operation")

# Slurm's words for ends that are nobody's fault in the script, and what to try.
SLURM_ENDS = {
    "OUT_OF_MEMORY": ("it needed more memory than it had asked for",
                      "Try a smaller batch or fewer workers, or ask for more: "
                      "scheduler_arguments = [\"--mem=...\"] in the site file."),
    "TIMEOUT": ("it reached its time limit",
                "Ask for more with time_limit in the site file, or train in pieces: "
                "--checkpoint-every, then --resume; a detached run does so by itself."),
    "DEADLINE": ("it reached its deadline", ""),
    "NODE_FAIL": ("a node failed", "Start it again; if it happens again, tell the cluster's "
                  "administrators which node it was."),
    "BOOT_FAIL": ("a node did not start", "Start it again."),
    "PREEMPTED": ("a job of higher priority took its place",
                  "Start it again, detached and with --checkpoint-every: then Slurm queues it "
                  "again and it goes on by itself."),
}

LESS_MEMORY = "Try a smaller batch, fewer workers, or more backward passes per step."
# What to try, by the type of exception; some say it in their own words.
ADVICE = {
    "SystemExit": "",
    "ClusterError": "",
    "ModuleNotFoundError": "Install it into the environment whose python the shell line names.",
    "FileNotFoundError": "A relative path starts in the folder that the shell line changes to.",
    "MemoryError": LESS_MEMORY,
    "ResourceExhaustedError": LESS_MEMORY,
}
ANY_ADVICE = "Mend what the last lines of the traceback point at, then run it again."
LOST_ADVICE = ("The ranks lost each other before training began. Gloo takes the first connection to "
               "its port for the other rank's, and another program may have come first: a Jupyter "
               "server goes on looking for kernels that have ended (not one that `ddl lab` "
               "opened). Run it again; if that helps not, look at the other logs.")
SECONDARY_ADVICE = ("A rank says this when it has lost touch with another one, which may have "
                    "ended before it: look at the other logs.")


@dataclass(frozen=True)
class Failure:
    """Why a run failed, in the order in which a reader needs it."""

    sentence: str
    rank: int | None = None
    host: str | None = None
    type: str | None = None
    message: str = ""
    traceback: str = ""
    others: str = ""
    advice: str = ""
    logs: tuple[Path, ...] = ()


def failure_of(folder, job, launcher, events, state, end):
    """Find the first cause of a run's failure.

    Parameters
    ----------
    folder : RunFolder
    job : dict
        What was asked for.
    launcher, events : list of dict
        What the launching side and the script wrote down.
    state : str
        The run's state.
    end : dict
        The event that ended it; empty while it goes on.

    Returns
    -------
    Failure or None
        None unless `state` is "failed" or "lost".
    """
    world = processes_of(job)
    logs = tuple(path for rank in range(world) if (path := folder.log(rank)).exists())
    if folder.launcher_log.exists():
        logs += (folder.launcher_log,)
    errors = sorted(filter(None, (read_json(folder.error(rank)) for rank in range(world))),
                    key=lambda error: error["time"])
    exits = [event for event in launcher
             if event["event"] == "rank_exit" and event["code"] and not event.get("reason")]
    if state == "lost":
        return Failure("the run's processes are gone and none of them wrote down why",
                       advice="Its machine may have been switched off, or its launcher killed. "
                              "Start it again.", logs=logs)
    if state != "failed":
        # A rank's error is shown as soon as it is there, while the others still run.
        return _raised(errors[0], folder, job, errors, events, logs) if (
            state not in ("done", "stopped") and errors and not _is_secondary(errors[0])) else None
    if end.get("slurm") in SLURM_ENDS:
        return _ended_by_slurm(end, errors, exits, logs)
    if end.get("reason") == "timeout":
        return _timed_out(end, job, folder, logs)
    if end.get("reason") == "absent":
        return _absent(end, job, folder, logs)
    if end.get("reason") == "launch":
        return Failure(f"the launcher failed before any rank ran: {end['message']}",
                       message=end["message"], traceback=end.get("log", ""), logs=logs,
                       advice="`ddl doctor` shows what this machine has and what is missing.")
    if end.get("reason") == "launcher killed":
        return Failure(f"the launcher was killed by {end['signal']}", logs=logs,
                       advice="If it was not you: the machine may be out of memory.")
    first = next((error for error in errors if not _is_secondary(error)), None)
    killed = next((event for event in exits if event["code"] > 128), None)
    if killed and not (first and first["time"] <= killed["time"]):
        return _killed(killed, folder, job, events, logs)
    if first or errors:
        return _raised(first or errors[0], folder, job, errors, events, logs)
    if exits:
        return Failure(f"{_who(exits[0]['rank'], job)} exited with status "
                       f"{exits[0]['code']} and no exception", rank=exits[0]["rank"],
                       advice="The end of its log may say more.", logs=logs)
    return Failure("the run failed and no rank said why", logs=logs,
                   advice="See the launcher's log.")


def _is_secondary(error):
    return any(sign in error["type"] or sign in error["message"] for sign in SECONDARY)


def _who(rank, job):
    """Name a rank, and its task in a cluster of tf.distribute: "rank 2 of 4 (worker 1)"."""
    role = role_of(job, rank)
    return f"rank {rank} of {processes_of(job)}{f' ({role})' * bool(role)}"


def _when(at, events, started):
    """Say when the moment `at` was: "3.2 s into epoch 2", or since the rank's start."""
    began = next((event["time"] for event in events if event["event"] in ("start", "step")), None)
    if began is None or at < began:
        return f"{at - started:.1f} s after it started" if started else "before it started"
    past = [event for event in events if event["event"] == "evaluation" and event["time"] <= at]
    epoch = int(past[-1].get("epoch") or 0) + 1 if past else 1
    return f"{at - (past[-1]['time'] if past else began):.1f} s into epoch {epoch}"


def _raised(error, folder, job, errors, events, logs):
    started = (read_json(folder.rank(error["rank"])) or {}).get("started")
    when = _when(error["time"], events, started)
    did = "gave up" if error["type"] == "SystemExit" else f"raised {error['type']}"
    other = [other for other in errors if other["rank"] != error["rank"]]
    others = "; ".join(f"rank {o['rank']} lost touch" if _is_secondary(o)
                       else f"rank {o['rank']} raised {o['type']}" for o in other)
    return Failure(
        sentence=f"{_who(error['rank'], job)} on {error['host']} {did} {when}",
        rank=error["rank"], host=error["host"], type=error["type"], message=error["message"],
        traceback=error["traceback"],
        others=others or ("the other ranks were ended" if processes_of(job) > 1 else ""),
        advice=SECONDARY_ADVICE if _is_secondary(error) else ADVICE.get(error["type"], ANY_ADVICE),
        logs=logs,
    )


def _killed(event, folder, job, events, logs):
    rank, number = event["rank"], event["code"] - 128
    name = signal.Signals(number).name if number in list(signal.Signals) else f"signal {number}"
    there = read_json(folder.rank(rank)) or {}
    host = there.get("host", "its host")
    advice = {
        "SIGKILL": "Nothing in the script does that. The usual cause is the machine running out "
                   "of memory: try a smaller batch, fewer workers, or fewer samples.",
        "SIGSEGV": "A library crashed: look at the end of that rank's log.",
        "SIGABRT": "A library gave up: look at the end of that rank's log.",
    }.get(name, "")
    last_words = _last_lines(folder.log(rank))
    lost = any(sign in " ".join(last_words) for sign in SECONDARY)
    if name == "SIGABRT" and not events and lost and not role_of(job, rank):
        advice = LOST_ADVICE
    world = processes_of(job)
    stacks = [(k, stack_of(folder.stack(k))) for k in range(world) if k != rank]
    said = f": {_what(last_words[-1])}" if name == "SIGABRT" and last_words else ""
    return Failure(
        sentence=f"{_who(rank, job)} on {host} was killed by {name} "
                 f"{_when(event['time'], events, there.get('started'))}{said}",
        rank=rank, host=host, type=name, advice=advice, logs=logs,
        traceback="\n".join([
            *([f"rank {rank}'s last words:", *last_words] if last_words else ()),
            *(f"rank {k} was here then (innermost call first):\n{stack}"
              for k, stack in stacks if stack)]),
        others="the other ranks were ended" if world > 1 else "",
    )


def _what(line):
    """What C++ says of its uncaught exception, without the place in the source."""
    return re.sub(r"^\s*what\(\):\s*(\[\S+:\d+\] )?", "", line).strip()


def _last_lines(path, count=8):
    if not path.exists():
        return []
    return [line for line in path.read_text(errors="replace").splitlines() if line.strip()][-count:]


def _ended_by_slurm(end, errors, exits, logs):
    why, advice = SLURM_ENDS[end["slurm"]]
    where = f" on {end['nodes']}" if end.get("nodes") else ""
    first = next((error for error in errors if not _is_secondary(error)), None)
    return Failure(
        sentence=f"Slurm ended job {end['job']}{where}: {why} ({end['slurm']})",
        type=end["slurm"], traceback=first["traceback"] if first else "",
        others="; ".join(f"rank {event['rank']} ended with status {event['code']}"
                         for event in exits),
        advice=advice, logs=logs,
    )


def _absent(end, job, folder, logs):
    missing = end["missing"]
    who = " and ".join(f"{_who(rank, job)}{' ended and' * (rank in end['gone'])}"
                       for rank in missing)
    return Failure(
        sentence=f"{who} never joined the cluster, which others were waiting for",
        rank=missing[0], host=(read_json(folder.rank(missing[0])) or {}).get("host"),
        type="absent",
        traceback="\n".join(f"rank {rank} was here (innermost call first):\n{stack}"
                            for rank in missing if (stack := stack_of(folder.stack(rank)))),
        others="the other ranks were ended",
        advice="Every rank has to make its strategy, or to serve. One that needs longer before it "
               "does so gets more seconds with DDL_CLUSTER_TIMEOUT_S.",
        logs=logs,
    )


def _timed_out(end, job, folder, logs):
    missing = end.get("missing") or []
    stacks = {rank: stack_of(folder.stack(rank)) for rank in range(processes_of(job))}
    who = " and ".join(f"rank {rank}" for rank in missing)
    waited = f": the others were waiting for {who}" if missing else ""
    shown = missing or sorted(stacks)
    timeout_s = end.get("timeout_s") or job["timeout_s"]
    return Failure(
        sentence=f"the run was ended at its time limit of {timeout_s:g} s{waited}",
        rank=missing[0] if missing else None, type="timeout",
        traceback="\n".join(f"rank {rank} was here (innermost call first):\n{stacks[rank]}"
                            for rank in shown if stacks[rank]),
        others="" if not missing else f"{who} never joined a collective operation (or "
        "hvd.init()) that the other ranks had reached",
        advice="Every rank must call the same collective operations in the same order."
        if missing else "Give it more time with timeout_s, or look where the ranks were.",
        logs=logs,
    )
