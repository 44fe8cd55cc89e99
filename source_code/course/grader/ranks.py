"""The process that runs an answer on several ranks while it is graded: ``python -I -m course.grader.ranks``.

It imports TensorFlow and Horovod once, then reads lines of JSON and answers each (`launches`); PyTorch comes with the
first script that uses it. For a request it forks a process a rank, which becomes the answer's script, and passes on
what each rank asks the grader: no process in which a script runs has another rank's data.
Whoever starts it isolates it: what it says is trusted no more than the script that it runs, and is judged elsewhere.
"""

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from multiprocessing import connection, get_context
from pathlib import Path

from course.grader.wire import Wire
from course.training import examiner
from ddl.launcher.optional_deps import NO_TORCH
from ddl.rank import rendezvous
from ddl.rank import tf_config as cluster
from ddl.rank.fast_exit import end_with_parent, run_and_exit
from ddl.rank.rendezvous import slots
from ddl.rank.worker import enter_script, run_script

FORK = get_context("fork")
LOOK_EVERY_S = 0.5  # for ranks that have ended and left processes behind, which hide it
GRACE_S = 2.0  # for the other ranks, after one has failed: their own error may be the first one
MESSAGE_BYTES = 2**20  # of a rank
TEXT = 500  # characters of an error
IMPORTED, FOR_TORCH = "course.training.exercise", "course.training.torch_exercise"  # with TensorFlow, with PyTorch
HARNESSES = {"loop": "course.training.trial", "sharded": "course.training.sharded_trial"}  # which run a file's parts
NON_DUMPABLE = 4, 0  # prctl: nobody else of this user looks into this process
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1")


def main() -> None:
    end_with_parent()
    wire = Wire()
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    import horovod.tensorflow  # noqa: F401  once for all ranks

    importlib.import_module(IMPORTED)
    gc.collect()
    gc.freeze()
    ctypes.CDLL(None).prctl(*NON_DUMPABLE)

    def answer(request):
        if "torch" in request.get("script", ""):
            with contextlib.suppress(ImportError):  # then a rank says so
                importlib.import_module(FOR_TORCH)
        return {} if request["do"] == "start" else _Launch(request, wire).run()

    wire.serve(answer)


class _Launch:
    """One start of a script on several ranks."""

    def __init__(self, request, wire):
        self._request, self._size, self._wire = request, request["size"], wire
        self._due = time.monotonic() + request["seconds"]
        self._home = Path(tempfile.mkdtemp(prefix="launch-"))
        self._connections = {}  # to the rank of each

    def run(self):
        """Return ``late``, and of each rank its ``status`` (None: it was ended), and whether it ``wrote`` weights."""
        at, told = FORK.Pipe(duplex=False)
        server = _start(_serve, self._size, told)
        told.close()
        ranks = []
        try:
            port = at.recv()
            for slot in slots(self._size, 1):
                connection, of_rank = FORK.Pipe()
                self._connections[connection] = slot.rank
                ranks.append(_start(self._become, slot, port, of_rank))
                of_rank.close()
            late, statuses = self._wait(ranks)
            wrote = [(self._home / str(rank) / "weights.npz").is_file() for rank in range(self._size)]
            return {
                "late": late,
                "ranks": [{"status": each, "wrote": file} for each, file in zip(statuses, wrote, strict=True)],
            }
        finally:
            for process in (server, *ranks):
                process.kill()
                process.join()
            self._leave(*self._connections)
            shutil.rmtree(self._home, ignore_errors=True)

    def _wait(self, ranks):
        """Pass on what ranks ask until all have ended, time is over, or one has failed a while ago.

        Return whether time is over and none has failed, and the status of each that has ended.
        """
        due, failed = self._due, False
        while running := [rank.sentinel for rank in ranks if rank.exitcode is None]:
            if not failed and any(rank.exitcode for rank in ranks):
                failed, due = True, min(due, time.monotonic() + GRACE_S)
            if (left := due - time.monotonic()) <= 0:
                break
            for ready in connection.wait([*self._connections, *running], min(left, LOOK_EVERY_S)):
                if ready in self._connections:
                    self._pass_on(ready)
        statuses = [rank.exitcode for rank in ranks]
        return None in statuses and not any(statuses), statuses

    def _pass_on(self, ready):
        """Pass a rank's message to the grader, and the reply back."""
        try:
            text = ready.recv_bytes(MESSAGE_BYTES).decode()
            reply = self._wire.ask({"rank": self._connections[ready], "message": text})
            ready.send_bytes(json.dumps(reply).encode())
        except (EOFError, OSError, ValueError):  # it has ended, or sent what is no message
            self._leave(ready)

    def _leave(self, *connections):
        for each in connections:
            del self._connections[each]
            each.close()

    # ---------------------------------------------------------------- in a rank

    def _become(self, slot, port, connection):
        """Run the script as ``__main__`` of this process, which is a fork; or what the program makes of it."""
        self._wire.close()
        self._leave(*self._connections)
        examiner.connect(connection, slot.rank)
        folder, name = self._home / str(slot.rank), self._request["file"]
        folder.mkdir()
        os.chdir(folder)
        log = os.open("log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        os.environ |= {
            **THREADS,
            **slot.horovod,
            **rendezvous.variables("127.0.0.1", port),
            **rendezvous.through("gloo", "lo"),
            "DDL_RUN_DIR": str(folder),
        }
        if "torch" in sys.modules:
            if slot.rank == 0:
                cluster.publish(0)
            os.environ |= cluster.torchrun()
        Path(name).write_text(self._request["script"])  # where tracebacks, and TensorFlow, find its lines
        code, module = enter_script(name)
        sys.orig_argv = sys.argv
        try:
            if harness := HARNESSES.get(self._request["program"]):
                importlib.import_module(harness).main(name)
            else:
                run_script(code, module)
        except BaseException as error:
            if not isinstance(error, SystemExit) or error.code:
                _explain(error, name)
                os._exit(1)  # exit handlers would wait for the other ranks
            raise


def _explain(error, name):
    """Note what ended the script `name`, and in which line."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == name]
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else frames and frames[-1].lineno
    message = NO_TORCH if isinstance(error, ModuleNotFoundError) and error.name == "torch" else str(error)
    described = {"type": type(error).__name__[:TEXT], "message": message[:TEXT], "line": line or None}
    examiner.examiner().note("error", **described, time=time.monotonic())


def _start(act, *arguments):
    """Call `act` in a fork of this process, which ends with it."""

    def begin():
        end_with_parent()
        run_and_exit(lambda: act(*arguments))

    process = FORK.Process(target=begin)
    process.start()
    return process


def _serve(size, told):
    """Be the server where Gloo's ranks meet, in a process of its own: threads do not live on in a fork."""
    _, port = rendezvous.server(size, 1)
    told.send(port)
    signal.pause()


if __name__ == "__main__":
    main()
