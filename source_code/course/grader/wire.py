"""A worker's or judge's end of the exchange of JSON lines."""

import json
import os


class Wire:
    """This process's standard input and output, taken away from the code that it will run.

    From then on that code reads nothing from standard input, and what it or its children write to the descriptors of
    standard output and error is lost; the process itself redirects what Python prints.
    """

    def __init__(self):
        self._in = open(os.dup(0), "rb")
        self._out = open(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)

    def read(self):
        """Return the next message, a dictionary; None at the end."""
        line = self._in.readline()
        return json.loads(line) if line else None

    def write(self, message):
        """Send `message`, a dictionary that JSON can write."""
        self._out.write(json.dumps(message).encode() + b"\n")
        self._out.flush()

    def close(self):
        """Leave the exchange: in a fork, it is its parent's."""
        self._in.close()
        self._out.close()
