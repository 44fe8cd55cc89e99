"""A live rank: ``python -m ddl.live.loop`` runs the cells that a notebook sends, in one namespace.

They come as lines of a file in the run's folder, and the answers are lines of another. What a cell prints, and its last
expression's value, go to the rank's log.
"""

import ast
import inspect
import linecache
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
import types
from collections import deque
from contextlib import suppress

from ddl.errors import InputError
from ddl.job.timeouts import live_idle_s
from ddl.records import files
from ddl.records.checksums import as_array
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import JsonLines
from ddl.records.recorder import Recorder
from ddl.start.fast_exit import flush
from ddl.start.worker import horovods

POLL_S = 0.1  # at most; less if there was something new a moment ago
FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
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
    try:
        if type(value) in CONTAINERS:
            return type(value)(plain(each, name) for each in value)
        if type(value) is dict:
            return {plain(key, name): plain(each, name) for key, each in value.items()}
    except RecursionError:
        raise InputError(f"{name} cannot be moved, because it contains itself or has too many levels") from None
    kinds = "arrays and tensors of numbers, numbers, strings, and lists, tuples, sets and dicts of them"
    raise InputError(f"{name} cannot be moved, because it is or holds a {type(value).__name__}: only {kinds} can")


class Loop:
    """Runs one request after another in the main thread, while a second thread reads them."""

    def __init__(self, folder: RunFolder, rank: int) -> None:
        self._folder, self._rank, self._recorder = folder, rank, Recorder()
        self._requests: queue.SimpleQueue = queue.SimpleQueue()
        self._busy, self._left = False, []
        self._main = sys.modules["__main__"] = types.ModuleType("__main__")
        self._names = vars(self._main)
        signal.signal(signal.SIGINT, self._interrupt)
        threading.Thread(target=self._read, daemon=True).start()

    def run(self) -> None:
        """Answer requests until one is to stop, or until none comes for ``DDL_LIVE_IDLE_S`` seconds."""
        with suppress(queue.Empty):
            while request := self._requests.get(timeout=live_idle_s()):
                number, kind = request.pop("number"), request.pop("kind")
                answer = getattr(self, f"_{kind}")(number, **request)
                self._folder.append(self._folder.answers(self._rank), {"number": number, **answer})

    def _read(self) -> None:
        lines, known, changed = JsonLines(self._folder.requests), 0, time.monotonic()
        try:
            while True:
                for request in lines.look()[known:]:
                    known, changed = known + 1, time.monotonic()
                    if request["kind"] == "interrupt":
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    elif request["kind"] == "leave":  # the main thread may be waiting in a collective
                        self._leave()
                    else:
                        self._requests.put(None if request["kind"] == "stop" else request)
                time.sleep(min(POLL_S, 0.001 + (time.monotonic() - changed) / 500))
        finally:  # also if requests cannot be read: the rank ends, and the notebook says so
            self._requests.put(None)

    def _interrupt(self, number: int, frame: object) -> None:
        if self._busy:
            raise KeyboardInterrupt

    def _cell(self, number: int, source: str, quiet: bool) -> dict:
        name, began, error = f"<cell {number}>", time.time(), None
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # for tracebacks
        if self._rank == 0:
            self._recorder.event("cell", number=number, source=source)
        try:
            try:
                self._busy = True
                self._execute(source, name, quiet)
            finally:
                self._busy = False
        except BaseException as raised:  # SystemExit too: a rank outlives its cells
            error = _described(raised, name)
        flush()
        if self._rank == 0:
            self._recorder.event("cell_end", number=number, seconds=time.time() - began, raised=bool(error))
        return {"error": error, "log_bytes": os.fstat(1).st_size}

    def _execute(self, source: str, name: str, quiet: bool) -> None:
        """Run a cell, and print its last expression's value as Python does, if not `quiet`."""
        tree, values = compile(source, name, "exec", FLAGS, dont_inherit=True), deque(maxlen=1)
        sys.displayhook = values.append  # of each expression
        code = compile(ast.Interactive(tree.body), name, "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        result = eval(code, self._names)
        if code.co_flags & inspect.CO_COROUTINE:
            import asyncio  # takes 40 ms, which would delay every start

            asyncio.run(result)
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not quiet:
            sys.__displayhook__(*values)

    def _push(self, number: int) -> dict:
        self._names.update(pickle.loads(files.read(self._folder.values(number))))
        return {}

    def _pull(self, number: int, name: str) -> dict:
        try:
            if name not in self._names:
                raise InputError(f"there is no variable {name!r}")
            value = pickle.dumps(plain(self._names[name], name))
            self._folder.write_text(self._folder.values(f"{number}-{self._rank}"), value)
        except Exception as error:  # such as a tensor on a device that is gone
            return {"error": {"line": f"{type(error).__name__}: {error}", "traceback": str(error)}}
        return {}

    # ---------------------------------------------------------------- collectives that nobody will finish

    def _leave(self) -> None:
        """Shut the libraries' connections down, so that collectives that wait end with an error on all ranks."""
        for basics in horovods():
            if basics.is_initialized():
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

    def _left_all(self, number: int) -> dict:
        """Answer once `_leave` is over: no rank may connect again while another still listens at its old address."""
        self._leave_group()
        return {}

    def _rejoin(self, number: int) -> dict:
        """Connect again what `_leave` has shut down."""
        while self._left:
            self._left.pop()()
        return {}


def _described(error: BaseException, name: str) -> dict:
    """Return an exception's last line and its traceback, from the cell's own lines down."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename != name:
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error, frames)
    line = traceback.format_exception_only(type(error), error)[-1].strip()
    return {"line": line, "traceback": "".join(lines)}


def main() -> None:
    folder = RunFolder.here()
    if not folder:
        sys.exit("this program runs the cells of a notebook: `%%ranks 2` there starts it")
    Loop(folder, int(os.environ.get("HOROVOD_RANK", "0"))).run()


if __name__ == "__main__":
    main()
