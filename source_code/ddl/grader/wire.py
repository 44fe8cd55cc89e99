"""The end of a conversation in lines of JSON that a worker or an examiner holds."""

import json
import os

__all__ = ["Wire"]


class Wire:
    """This process's standard input and output, taken away from the code that it is to run.

    From then on that code reads nothing from standard input, and what it or its children write to standard output and
    error is lost; what Python prints is for the process to redirect.
    """

    def __init__(self):
        self._in = open(os.dup(0), "rb")
        self._out = open(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)

    def read(self):
        """Return the next message, a dictionary; None when there will be no more."""
        line = self._in.readline()
        return json.loads(line) if line else None

    def write(self, message):
        """Send `message`, a dictionary that JSON can write."""
        self._out.write(json.dumps(message).encode() + b"\n")
        self._out.flush()
