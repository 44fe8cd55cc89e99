"""A process's end of a `course.grader.worker_process`."""

import json
import os


class MessagePipe:
    """This process's standard input and output, hidden from the code that it will run.

    That code then reads nothing from standard input, and anything it or its children write to the descriptors of
    standard output and error is discarded (error only if not `heard`); the process redirects Python's prints itself.
    """

    def __init__(self, heard=False):
        self._in = open(os.dup(0), "rb")
        self._out = open(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1) if heard else (0, 1, 2):
            os.dup2(nothing, descriptor)

    def serve(self, answer):
        """Answer requests, dictionaries, until the input ends."""
        pid = os.getpid()
        while request := self._read():
            answered = answer(request) | {"id": request["id"]}
            if os.getpid() != pid:  # a fork of the submission's must not answer as well
                os._exit(0)
            self._write(answered)

    def ask(self, question):
        """Ask the grader a question while working on a request; return the reply. Both are dictionaries."""
        self._write({"ask": question})
        return self._read()

    def _read(self):
        line = self._in.readline()
        return json.loads(line) if line else None

    def _write(self, message):
        self._out.write(json.dumps(message).encode() + b"\n")
        self._out.flush()
