"""A process's end of a `course.grader.worker_process`."""

import json
import os


class Wire:
    """This process's standard input and output, taken away from the code that it will run.

    From then on that code reads nothing from standard input, and what it or its children write to the descriptors of
    standard output and error is lost (of error only if it is not `heard`); the process itself redirects what Python
    prints.
    """

    def __init__(self, heard=False):
        self._in = open(os.dup(0), "rb")
        self._out = open(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1) if heard else (0, 1, 2):
            os.dup2(nothing, descriptor)

    def serve(self, answer):
        """Answer requests, dictionaries, until there are no more."""
        pid = os.getpid()
        while request := self._read():
            answered = answer(request) | {"id": request["id"]}
            if os.getpid() != pid:  # forked by what it ran: it must not answer, too
                os._exit(0)
            self._write(answered)

    def ask(self, question):
        """Return the reply to a question of this process's own, both dictionaries, while it works on a request."""
        self._write({"ask": question})
        return self._read()

    def _read(self):
        line = self._in.readline()
        return json.loads(line) if line else None

    def _write(self, message):
        self._out.write(json.dumps(message).encode() + b"\n")
        self._out.flush()
