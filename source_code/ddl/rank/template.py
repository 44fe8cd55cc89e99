"""A template: ``python -m ddl.rank.template`` imports TensorFlow and Horovod once, and its forks become ranks.

It initialises nothing: no TensorFlow context, no Horovod, no GPU, no thread. Its forks share one thing that cold starts
do not: the secret of Python's string hashes. It ends when nobody has asked for a rank for ``DDL_WARM_IDLE_S`` seconds,
when a file that it has imported has changed, and when it is told to; then it waits for its last fork. If it is killed,
its forks are, too.
"""

import contextlib
import gc
import glob
import importlib
import os
import selectors
import signal
import socket
import sys
import time
import traceback

import psutil

from ddl.launcher import warm
from ddl.launcher.settings import idle_s
from ddl.rank.ending import fork, run_and_end
from ddl.rank.fork import become
from ddl.records.log import keep_writing

Rank = tuple[dict, list[int]]  # what a supervisor asks for, and its open files
STAMP_S = 1.0  # for so long after a look, files count as unchanged


def main() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            listener.bind(warm.address(warm.identity()))
        except OSError:
            return  # another one was faster
        listener.listen(128)  # who asks from now on waits until everything is imported
        _import()
        if reason := unfit():
            sys.exit(f"no rank can start from here: {reason}")
        rank = Template(listener).serve()
    if rank:
        become(*rank)


def _import() -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # no threads: `ddl.rank.fork.set_blas_threads`
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # as `ddl.rank.worker` does
    keep_writing()  # what logs to these streams from now on writes to a rank's log
    importlib.import_module("horovod.tensorflow")  # Keras comes with it
    gc.collect()
    gc.freeze()  # a fork's collector need not touch, and so copy, what is here


class Template:
    """Answers until it has nothing more to do."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._forks: dict[socket.socket, tuple[int, int]] = {}  # process and its descriptor, by who asked
        self._stamp, self._looked = stamp(), time.monotonic()
        self._idle_s = idle_s()
        self._asked, self._served = time.monotonic(), 0
        self._ending = False
        self._process = os.getpid()
        self._stopped: list[socket.socket] = []  # who asked it to stop, and waits until it is gone

    def serve(self) -> Rank | None:
        """Answer; return None when this is over, and in each fork what to `become`."""
        while self._forks or not self._ending:
            left = None if self._forks else max(0.0, self._idle_s - (time.monotonic() - self._asked))
            ready = self._selector.select(left)
            if not ready and not self._forks:
                self._end()
            for key, _ in ready:
                try:
                    if rank := key.data(key.fileobj):
                        return rank
                except Exception:
                    traceback.print_exc()  # one mishap is not to end the ranks of other runs
                    if os.getpid() != self._process:
                        os._exit(1)
        return None

    def _end(self) -> None:
        if not self._ending:
            self._ending = True
            self._selector.unregister(self._listener)
            self._listener.close()  # its name is free for the next template

    def _accept(self, listener: socket.socket) -> Rank | None:
        connection, _ = listener.accept()
        connection.settimeout(warm.ANSWER_S)
        files: list[int] = []
        rank = None
        try:
            if warm.peer(connection)[1] == os.getuid() and (received := warm.receive(connection, descriptors=4)):
                request, files = received
                rank = self._answer(connection, request, files)
        except ConnectionError:
            pass  # who asked did not wait for the answer
        finally:
            if not rank:
                for file in files:
                    os.close(file)
                if connection not in self._forks and connection not in self._stopped:
                    connection.close()
        return rank

    def _answer(self, connection: socket.socket, request: dict, files: list[int]) -> Rank | None:
        if request["do"] == "fork":
            self._asked = time.monotonic()  # (whoever only lists templates keeps none of them)
            return self._fork(connection, request, files)
        if request["do"] == "status":
            memory = psutil.Process().memory_info()
            own_bytes = memory.rss - memory.shared  # without files, which others map, too
            known = {"idle_s": self._idle_s, "memory_bytes": own_bytes}
            warm.send(connection, {"served": self._served, "active": len(self._forks), **known})
        else:
            self._end()
            warm.send(connection, {"active": len(self._forks)})
            self._stopped.append(connection)
        return None

    # ---------------------------------------------------------------- forks

    def _fork(self, connection: socket.socket, request: dict, files: list[int]) -> Rank | None:
        if reason := unfit() or self._changed():
            print(f"no fork: {reason}", file=sys.stderr, flush=True)
            self._end()
            warm.send(connection, {"cold": reason})
            return None
        sys.stdout.flush()
        sys.stderr.flush()
        pid = fork()
        if pid == 0:
            self._leave(connection)
            return request, files
        descriptor = os.pidfd_open(pid)
        self._served += 1
        self._forks[connection] = pid, descriptor
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, self._end_with_supervisor)
        self._selector.register(descriptor, selectors.EVENT_READ, lambda _: self._finish(connection))
        with contextlib.suppress(OSError):  # who asked is gone: noticed next
            warm.send(connection, {"pid": pid}, (descriptor,))
        return None

    def _leave(self, connection: socket.socket) -> None:
        """Close, in a fork, what is the template's."""
        self._selector.close()
        for each in (self._listener, connection, *self._stopped, *self._forks):
            each.close()
        for _, descriptor in self._forks.values():
            os.close(descriptor)

    def _end_with_supervisor(self, connection: socket.socket) -> None:
        """Kill a fork when whoever asked for it is gone."""
        if connection not in self._forks:  # it ended in the same moment
            return
        self._selector.unregister(connection)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._forks[connection][1], signal.SIGKILL)

    def _finish(self, connection: socket.socket) -> None:
        """Collect a fork that has ended, and say how."""
        pid, descriptor = self._forks.pop(connection)
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        connection.settimeout(warm.ANSWER_S)
        with contextlib.suppress(OSError):
            warm.send(connection, {"status": status})
        connection.close()
        self._asked = time.monotonic()

    def _changed(self) -> str:
        """Which of the files that are imported has changed, if any."""
        if time.monotonic() - self._looked < STAMP_S:
            return ""
        new, self._looked = stamp(), time.monotonic()
        return next((f"{path} has changed" for path in self._stamp if new.get(path) != self._stamp[path]), "")


def stamp() -> dict[str, tuple | list]:
    """Time and size of every file that this process has imported, and what the folders of packages contain.

    (Not such a folder's own time: the first process that may write bytecode makes a ``__pycache__`` there.)
    """
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    files.add(os.path.join(sys.prefix, "pyvenv.cfg"))
    found: dict[str, tuple | list] = {}
    for folder in (path for path in sys.path if path.endswith("-packages") and os.path.isdir(path)):
        found[folder] = sorted({*os.listdir(folder)} - {"__pycache__"})
    for path in filter(None, files):
        with contextlib.suppress(OSError):
            state = os.stat(path)
            found[path] = state.st_mtime_ns, state.st_size
    return found


def unfit(process: str = "/proc/self") -> str:
    """Why this process cannot be forked, if so: threads do not live on in a fork, nor does a GPU's driver."""
    if (threads := len(os.listdir(f"{process}/task"))) != 1:
        return f"{threads} threads are running"
    for path in glob.glob(f"{process}/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(path).startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")):
                return f"a GPU's driver is in use ({os.readlink(path)})"
    context = sys.modules.get("tensorflow.python.eager.context")
    if getattr(getattr(context, "_context", None), "_context_handle", None):
        return "TensorFlow is initialised"
    return ""


if __name__ == "__main__":
    run_and_end(main)
