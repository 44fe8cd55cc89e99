"""Run the script in a rank's process.

The rank sends its output to its log, records that it has started, joins a cluster if there is one, and becomes the
script, with the arguments, working directory and ``__main__`` that python gives it. Output goes to a file and not
through horovodrun's pipes: a child of a crashed rank that holds a pipe open would make horovodrun wait forever.
"""

import atexit
import bdb
import contextlib
import faulthandler
import gc
import importlib.util
import os
import signal
import sys
import threading
import time
import traceback
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path

from ddl.errors import CourseError
from ddl.job.run_options import RunOptions
from ddl.job.timeouts import TERM_GRACE_S
from ddl.records.folder import STACK_SIGNAL, RunFolder
from ddl.records.log import keep_writing
from ddl.records.machine import gpu_numbers, host_name
from ddl.records.stack import require_keras_2
from ddl.start import devices, tf_config
from ddl.start.fast_exit import exit_status

# New objects between two collections of garbage. With Python's 700, TensorFlow's import takes 0.4 s of 2.3 s longer.
COLLECT_EVERY = 10_000
TEST_RUNNER = str(Path(__file__).parents[1] / "pytest_ranks.py")


class NoKeyboard(CourseError, RuntimeError):
    """A rank called ``breakpoint()``, but has no terminal."""


def main(forked: bool = False) -> None:
    """Be a rank of the run that this process's command line names; `forked` if its libraries are already imported."""
    options = RunOptions.of_process()
    if (
        options.folder
    ):  # this process was started elsewhere, so that no json.py in the working folder hides the library's
        os.chdir(options.cwd)
    gc.set_threshold(COLLECT_EVERY)
    # A process of an elastic run keeps its number while its rank changes.
    rank = int(os.environ.get("DDL_PROCESS") or os.environ.get("HOROVOD_RANK", "0"))
    roles = options.roles(int(os.environ.get("HOROVOD_SIZE", "1")))
    debugged = options.debug == rank and options.terminal
    _set_threads(str(options.threads), forked, options.variables)
    note = devices.prepare(options)
    folder = RunFolder.here()
    # A warning of the time limit may come while the script imports. A script that handles SIGURG unblocks it; other
    # scripts ignore SIGURG with or without this.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    record = {
        "rank": rank,
        "host": host_name(),
        "pid": os.getpid(),
        "started": time.time(),
        "threads": options.threads,
        "start": "warm" if forked else "cold",
        "note": note,
    }
    if folder:
        _open_files(folder, rank, options.terminal if debugged else "")
        folder.record(folder.rank(rank), record)
    try:
        if options.cluster == "horovod":
            require_keras_2()
        if roles or (options.cluster == "torchrun" and not rank):
            tf_config.publish(rank)
        if roles:
            _join(rank, roles)
        if options.cluster == "torchrun":
            os.environ.update(tf_config.torchrun())
        enter, script = (enter_module, options.module) if options.module else (enter_script, options.script)
        code, module = enter(script, options.args)
        before = dict(os.environ)
        exec(code, vars(module))
        if forked and not roles:  # tf.distribute sets such variables itself
            _warn_of_late_variables(before)
    except BaseException as error:
        if status := exit_status(error):
            if debugged and not isinstance(error, (SystemExit, bdb.BdbQuit)):
                _debug(error)
            _report(error, status, rank, folder)
            _forget_horovods_shutdown()
            timer = threading.Timer(TERM_GRACE_S, os._exit, [status])
            timer.daemon = True
            timer.start()
            sys.exit(status)
    if roles and roles[rank][0] == "chief":
        tf_config.dismiss()  # otherwise the other tasks would serve forever
    if folder:  # before exit handlers, which may wait for other ranks
        folder.record(folder.rank(rank), {**record, "ended": time.time()})


def _forget_horovods_shutdown():
    """Unregister Horovod's exit handler: a failed rank would wait in it for ranks that wait for this one."""
    for basics in horovods():
        atexit.unregister(basics.shutdown)


def horovods():
    """Yield the basic functions of each framework's Horovod that is imported."""
    for name in ("horovod.tensorflow.mpi_ops", "horovod.torch.mpi_ops"):
        if basics := getattr(sys.modules.get(name), "_basics", None):
            yield basics


def _set_threads(threads, forked, given=()):
    """Set the number of threads, except in variables that the user has `given` this run."""
    os.environ["DDL_THREADS"] = threads
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        if name not in given:
            os.environ[name] = threads
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if forked:  # OpenBLAS is loaded already
        from ddl.start.openblas import set_blas_threads

        set_blas_threads(int(threads))


def _warn_of_late_variables(before):
    """Name variables that the script has set after TensorFlow had read them, before the fork."""
    from ddl.start.fork_client import read_at_import

    late = [name for name in read_at_import(os.environ) if os.environ[name] != before.get(name)]
    if late := [name for name in late if name.startswith(("TF_", "XLA_"))]:
        print(
            f"{', '.join(late)} had no effect: this rank was forked from a process that had imported TensorFlow. "
            "launch(..., warm=False) starts ranks without that",
            file=sys.stderr,
            flush=True,
        )


def _join(rank, roles):
    """Wait for the other ranks, and set the variables that tf.distribute reads."""
    joined = tf_config.assemble(rank, roles)
    os.environ["TF_CONFIG"] = joined.tf_config
    local_rank = int(os.environ.get("HOROVOD_LOCAL_RANK", "0"))
    os.environ["CUDA_VISIBLE_DEVICES"] = devices.visible_devices(rank, local_rank, roles, gpu_numbers())
    if joined.chief:
        # Each step that waits inside a server for other steps takes a thread: with fewer threads it hangs.
        least = max(len(joined.workers) + 1, int(os.environ["DDL_THREADS"]))
        os.environ["TF_NUM_INTEROP_THREADS"] = str(least)


def _open_files(folder, rank, terminal):
    """Connect the streams to the rank's log, or to a terminal; open the file for stacks, on request and in a crash."""
    if terminal:
        _open_terminal(terminal)
    else:
        log = os.open(folder.log(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        keep_writing()
        sys.breakpointhook = _refuse_breakpoint
    folder.error(rank).unlink(missing_ok=True)  # from an earlier start of a requeued job
    stacks = open(folder.stack(rank), "w")
    # The launcher asks for the stack when a run hangs.
    faulthandler.register(STACK_SIGNAL, file=stacks)
    faulthandler.enable(stacks)


def _open_terminal(path):
    """Connect this process's streams to a terminal."""
    terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        os.dup2(terminal, number)
        setattr(sys, name, open(number, mode, buffering=1, closefd=False))
    os.close(terminal)


def _refuse_breakpoint(*arguments, **keywords):
    """Raise `NoKeyboard` with a hint, unless PYTHONBREAKPOINT chooses another debugger."""
    if os.environ.get("PYTHONBREAKPOINT"):
        return sys.__breakpointhook__(*arguments, **keywords)
    rank = os.environ.get("HOROVOD_RANK", "0")
    raise NoKeyboard(
        f"breakpoint() needs a terminal, and ranks have none: `ddl run --debug {rank}` gives this rank yours"
    )


def _debug(error):
    """Open the debugger at the frames of an exception."""
    import pdb

    traceback.print_exception(type(error), error, _own_frames(error))
    print("Post mortem: `bt` shows the frames, `up` and `down` move between them, `q` ends this rank.")
    with contextlib.suppress(Exception):
        pdb.post_mortem(_own_frames(error))


# ---------------------------------------------------------------- the script


def enter_script(script, arguments=()):
    """Give this process the ``__main__``, arguments and path that python gives a script; return its code and module."""
    module = _enter_main(script, arguments, SourceFileLoader("__main__", script))
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    return compile(Path(script).read_bytes(), script, "exec", dont_inherit=True), module


def enter_module(name, arguments=()):
    """Do the same for a module, as ``python -m`` does; ImportError if it is not found."""
    sys.path[0] = os.getcwd()
    spec = importlib.util.find_spec(name)
    if spec and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r} in {sys.path[0]} or on the path", name=name)
    module = _enter_main(spec.origin, arguments, spec.loader)
    module.__spec__, module.__package__ = spec, spec.parent
    return spec.loader.get_code(spec.name), module


def _enter_main(file, arguments, loader):
    module = types.ModuleType("__main__")
    module.__file__, module.__loader__, module.__builtins__ = file, loader, __builtins__
    sys.modules["__main__"] = module
    sys.argv = [file, *arguments]
    return module


# ---------------------------------------------------------------- errors


def _own_frames(error):
    """Return an exception's traceback from the script's or test's own frames down."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename in (__file__, TEST_RUNNER):
        frames = frames.tb_next
    return frames


def _message_of(error):
    try:
        return str(error)
    except Exception as failed:  # an exception may fail to describe itself
        return f"its message could not be read: {type(failed).__name__}"


def _report(error, status, rank, folder):
    """Record the traceback and print it."""
    if isinstance(error, SystemExit):  # a bare status says little, but it is all there is
        text = "" if isinstance(error.code, int) else f"{error}\n"
    else:
        text = "".join(traceback.format_exception(type(error), error, _own_frames(error)))
    # A script may have closed or redirected its output: record the error before printing it.
    if folder:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            sys.stdout.flush()
        log = folder.log(rank)
        record = {
            "rank": rank,
            "host": host_name(),
            "type": type(error).__name__,
            "status": status,
            "message": _message_of(error),
            "traceback": text,
            "time": time.time(),
            "log_bytes": log.stat().st_size if log.exists() else 0,  # before the traceback
        }
        folder.record(folder.error(rank), record)
    with contextlib.suppress(AttributeError, OSError, ValueError):
        print(text, end="", file=sys.stderr, flush=True)
