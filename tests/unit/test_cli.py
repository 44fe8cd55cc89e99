"""The command line as a shell's user meets it."""

import os
import subprocess
import sys


def test_a_reader_that_has_seen_enough_gets_no_complaint():
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does, but sure to be first
    ended = subprocess.run(
        [sys.executable, "-m", "ddl.cli", "topology", "dgx-a100"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, "")
