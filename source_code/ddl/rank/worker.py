"""A worker: what ``python -m ddl.rank --threads N [OPTIONS] SCRIPT [ARGUMENT ...]`` does.

It sends output to the rank's log, records that the rank has started, joins a cluster (``--cluster``), and becomes the
script, with arguments, working directory and ``__main__`` as if python had started it. Output goes to a file and not
through horovodrun's pipes: a crashed rank's child that holds a pipe open would make horovodrun wait for ever.
"""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path

from ddl.launcher.commands import RankCommand
from ddl.launcher.roles import assign_roles
from ddl.rank import cluster
from ddl.rank.ending import exit_status
from ddl.records.folder import STACK_SIGNAL, RunFolder, StorageError
from ddl.records.log import keep_writing
from ddl.records.machine import gpu_numbers, host_name
from ddl.records.stack import require_keras_2

# A rank that failed must not wait in its exit handlers for ranks that wait for it.
EXIT_GRACE_S = 2.0


def main():
    command = RankCommand.of_this_process()
    # Of an elastic run, a process keeps its number while its rank changes.
    rank = int(os.environ.get("DDL_PROCESS") or os.environ.get("HOROVOD_RANK", "0"))
    workers = command.workers(int(os.environ.get("HOROVOD_SIZE", "1")))
    roles = assign_roles(command.cluster, workers, command.parameter_servers)
    for_torch = command.cluster == "torchrun"
    _set_threads(str(command.threads))
    folder = RunFolder.here()
    # A warning of the time limit may come while the script imports: `course.training.notice.Notice` unblocks
    # it. Scripts without a Notice would have ignored it, and still do.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    record = {
        "rank": rank,
        "host": host_name(),
        "pid": os.getpid(),
        "started": time.time(),
        "threads": command.threads,
        "start": "warm" if "ddl.rank.fork" in sys.modules else "cold",
    }
    if folder:
        _open_files(folder, rank)
        _record(folder, folder.rank(rank), record)
    try:
        require_keras_2()
        if roles or (for_torch and not rank):
            cluster.publish(rank)
        if roles:
            _join(rank, roles)
        if for_torch:
            os.environ.update(cluster.torchrun())
        run_script(enter_script(command.script, command.arguments))
    except BaseException as error:
        if status := exit_status(error):
            _report(error, status, rank, folder)
            timer = threading.Timer(EXIT_GRACE_S, os._exit, [status])
            timer.daemon = True
            timer.start()
            sys.exit(status)
    if roles and roles[rank][0] == "chief":
        cluster.dismiss()  # or the others would serve for ever
    if folder:  # its exit handlers may wait for other ranks
        _record(folder, folder.rank(rank), {**record, "ended": time.time()})


def _set_threads(threads):
    os.environ["DDL_THREADS"] = threads
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ[name] = threads
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if fork := sys.modules.get("ddl.rank.fork"):  # this process is one: OpenBLAS was loaded before
        fork.set_blas_threads()


def _join(rank, roles):
    """Wait for the other ranks, and set the environment that tf.distribute reads."""
    joined = cluster.assemble(rank, roles)
    os.environ["TF_CONFIG"] = joined.tf_config
    local_rank = int(os.environ.get("HOROVOD_LOCAL_RANK", "0"))
    os.environ["CUDA_VISIBLE_DEVICES"] = cluster.visible_devices(rank, local_rank, roles, gpu_numbers())
    if joined.chief:
        # A step waits inside a server for other steps, one thread each: with fewer it hangs.
        least = max(len(joined.workers) + 1, int(os.environ["DDL_THREADS"]))
        os.environ["TF_NUM_INTEROP_THREADS"] = str(least)


def _open_files(folder, rank):
    """Send output to the rank's log, and stacks to their file: on request, and from a crash."""
    try:
        log = os.open(folder.log(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        keep_writing(folder.lost(rank))
        folder.error(rank).unlink(missing_ok=True)  # an earlier start of a requeued job left it
        stacks = open(folder.stack(rank), "w")
    except OSError as error:
        problem = StorageError(error, error.filename or folder.path)
        print(f"rank {rank}: {problem}. It continues without", file=sys.stderr, flush=True)
        stacks = sys.stderr
    # The launcher asks for this when a run hangs: where is each rank?
    faulthandler.register(STACK_SIGNAL, file=stacks)
    faulthandler.enable(stacks)


def _record(folder, path, mapping):
    """Write a record; without it this rank does its work, but nobody can see it."""
    try:
        folder.write_json(path, mapping)
    except StorageError as error:
        print(f"{error}. The rank continues without this record", file=sys.stderr, flush=True)


def enter_script(script, arguments=()):
    """Give this process the ``__main__``, arguments and path that python gives a script; return that module."""
    main_module = types.ModuleType("__main__")
    main_module.__file__ = script
    main_module.__loader__ = SourceFileLoader("__main__", script)
    main_module.__builtins__ = __builtins__
    sys.modules["__main__"] = main_module
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    return main_module


def run_script(module):
    """Run the script of a module that `enter_script` has made."""
    code = compile(Path(module.__file__).read_bytes(), module.__file__, "exec", dont_inherit=True)
    exec(code, vars(module))


def _report(error, status, rank, folder):
    """Keep the traceback, from the script's own frames down, and print it."""
    if isinstance(error, SystemExit):
        # sys.exit("message") speaks for itself; a bare status says little, but it is all there is.
        text = "" if isinstance(error.code, int) else f"{_text(error)}\n"
    else:
        frames = error.__traceback__
        while frames and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        text = "".join(traceback.format_exception(type(error), error, frames))
    # A script may have closed its output, or redirected it: keep the error all the same.
    if folder:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            sys.stdout.flush()
        log = folder.log(rank)
        record = {
            "rank": rank,
            "host": host_name(),
            "type": type(error).__name__,
            "status": status,
            "message": _text(error),
            "traceback": text,
            "time": time.time(),
            "log_bytes": log.stat().st_size if log.exists() else 0,  # what the log holds besides
        }
        _record(folder, folder.error(rank), record)
    with contextlib.suppress(AttributeError, OSError, ValueError):
        print(text, end="", file=sys.stderr, flush=True)


def _text(error):
    """An exception's message; its own `__str__` may fail, too."""
    try:
        return str(error)
    except Exception:
        return f"(a {type(error).__name__} that cannot be shown)"
