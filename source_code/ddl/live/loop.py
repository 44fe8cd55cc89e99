"""A live rank: ``python -m ddl.live.loop`` runs the cells that a notebook sends, in one namespace.

The notebook connects through a Unix socket in the run's folder, or to a port if Slurm has put the rank on another host.
Both ends prove that they know the run's key before anything else is read. What a cell prints goes to the rank's log,
which the notebook reads as every view does.
"""

import ast
import linecache
import os
import queue
import signal
import sys
import threading
import time
import traceback
import types
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener

from ddl.errors import InputError
from ddl.job.timeouts import live_idle_s
from ddl.records.checksums import as_array
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json
from ddl.records.recorder import Recorder
from ddl.start.fast_exit import libc

KEY = "DDL_LIVE_KEY"
ATOMS = (type(None), bool, int, float, complex, str, bytes)
CONTAINERS = (list, tuple, set, frozenset)


def plain(value: object, name: str) -> object:
    """Return a variable's value to send, with tensors as arrays; InputError if it holds anything but plain data."""
    import numpy

    if hasattr(value, "numpy"):  # a tensor or variable of TensorFlow or PyTorch
        try:
            value = as_array(value)
        except (TypeError, RuntimeError, NotImplementedError) as error:  # such as a class, or a sparse tensor
            raise InputError(f"{name} cannot be moved: {error}") from error
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        known = isinstance(value, numpy.generic) or type(value).__module__.partition(".")[0] == "numpy"
        if known and not value.dtype.hasobject:
            return value
    if type(value) in ATOMS:
        return value
    if type(value) in CONTAINERS:
        return type(value)(plain(each, name) for each in value)
    if type(value) is dict:
        return {plain(key, name): plain(each, name) for key, each in value.items()}
    kinds = "arrays and tensors of numbers, numbers, strings, and lists, tuples, sets and dicts of them"
    raise InputError(f"{name} cannot be moved, because it is or holds a {type(value).__name__}: only {kinds} can")


class Loop:
    """Runs one request after another in the main thread, while a second thread reads them."""

    def __init__(self, connection: Connection, rank: int) -> None:
        self._connection, self._rank, self._recorder = connection, rank, Recorder()
        self._requests: queue.SimpleQueue = queue.SimpleQueue()
        self._busy, self._left = False, []
        self._main = sys.modules["__main__"] = types.ModuleType("__main__")
        self._names = vars(self._main)
        signal.signal(signal.SIGINT, self._interrupt)
        threading.Thread(target=self._read, daemon=True).start()

    def run(self) -> None:
        """Answer requests until the notebook is gone or has sent none for ``DDL_LIVE_IDLE_S`` seconds."""
        with suppress(queue.Empty, OSError):
            while request := self._requests.get(timeout=live_idle_s()):
                kind, *content = request
                self._connection.send(getattr(self, f"_{kind}")(*content))

    def _read(self) -> None:
        try:
            with suppress(EOFError, OSError):
                while True:
                    request = self._connection.recv()
                    if request == ("interrupt",):
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    elif request == ("leave",):  # the main thread may be waiting in a collective
                        self._leave()
                    else:
                        self._requests.put(request)
        finally:  # also if a request cannot be read: the rank ends, and the notebook says so
            self._requests.put(None)

    def _interrupt(self, number: int, frame: object) -> None:
        if self._busy:
            raise KeyboardInterrupt

    def _cell(self, number: int, source: str) -> dict:
        name, began, answer = f"<cell {number}>", time.time(), {"value": "", "error": None}
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # for tracebacks
        if self._rank == 0:
            self._recorder.event("cell", number=number, source=source)
        try:
            try:
                self._busy = True
                answer["value"] = _execute(source, name, self._names)
            finally:
                self._busy = False
        except BaseException as error:  # SystemExit too: a rank outlives its cells
            answer["error"] = _described(error, name)
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        libc.fflush(None)
        if self._rank == 0:
            self._recorder.event("cell_end", number=number, seconds=time.time() - began, raised=bool(answer["error"]))
        return answer | {"log_bytes": os.fstat(1).st_size}

    def _push(self, values: dict) -> dict:
        self._names.update(values)
        return {"error": None}

    def _pull(self, name: str) -> dict:
        try:
            if name not in self._names:
                raise InputError(f"there is no variable {name!r}")
            return {"value": plain(self._names[name], name), "error": None}
        except Exception as error:  # such as a tensor on a device that is gone
            return {"error": {"line": f"{type(error).__name__}: {error}", "traceback": str(error)}}

    # ---------------------------------------------------------------- collectives that nobody will finish

    def _leave(self) -> None:
        """Shut the libraries' connections down, so that collectives that wait end with an error on all ranks."""
        for name in ("horovod.tensorflow.mpi_ops", "horovod.torch.mpi_ops"):
            basics = getattr(sys.modules.get(name), "_basics", None)
            if basics and basics.is_initialized():
                basics.shutdown()
                self._left.append(basics.init)
        if not self._busy:  # a group of PyTorch is closed by the ranks that don't use it
            self._leave_group()

    def _leave_group(self) -> None:
        distributed = sys.modules.get("torch.distributed")
        if distributed and distributed.is_initialized():
            backend = distributed.get_backend()
            distributed.destroy_process_group()
            self._left.append(lambda: distributed.init_process_group(backend))

    def _left_all(self) -> dict:
        """Answer once `_leave` is over: no rank may connect again while another still listens at its old address."""
        self._leave_group()
        return {"error": None}

    def _rejoin(self) -> dict:
        """Connect again what `_leave` has shut down."""
        while self._left:
            self._left.pop()()
        return {"error": None}


def _execute(source: str, name: str, names: dict) -> str:
    """Run a cell; return the last expression's value as text, empty if it is None or hidden by a semicolon."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec", dont_inherit=True), names)
    if last is None:
        return ""
    value = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), names)
    return "" if value is None or source.rstrip().endswith(";") else repr(value)


def _described(error: BaseException, name: str) -> dict:
    """Return an exception's last line and its traceback, from the cell's own lines down."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename != name:
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error, frames)
    line = traceback.format_exception_only(type(error), error)[-1].strip()
    return {"line": line, "traceback": "".join(lines)}


def listen(folder: RunFolder, rank: int, key: bytes) -> Connection:
    """Wait for the notebook; return the connection to it."""
    job = read_json(folder.job) or {}
    directory = os.open(folder.path, os.O_RDONLY)  # a socket's path has at most 107 characters
    if job.get("site", {}).get("scheduler") == "slurm":
        from ddl.start.task import own_address

        listener = Listener((own_address(job["site"].get("network_interface", "")), 0), authkey=key)
        folder.write_json(folder.live(rank), {"address": listener.address})
    else:
        listener = Listener(f"/proc/self/fd/{directory}/{folder.live(rank).name}", authkey=key)
    with listener:
        while True:
            with suppress(AuthenticationError, EOFError, OSError):  # somebody else
                return listener.accept()


def main() -> None:
    key, folder = os.environ.pop(KEY, ""), RunFolder.here()
    if not (key and folder):
        sys.exit("this program runs the cells of a notebook: `%%ranks 2` there starts it")
    rank = int(os.environ.get("HOROVOD_RANK", "0"))
    Loop(listen(folder, rank, bytes.fromhex(key)), rank).run()


if __name__ == "__main__":
    main()
