"""Run the fast tests (`make test`) or every one, a skipped one being a failure (`make test-all`: --all).

Further options go to pytest. On the next stack the full run has those on which its TensorFlow has a say, and one
lesson: all others hold on the default.

Two sessions run beside each other, as one leaves a core idle half of the time. What one of them starts the other
leaves alone. The output of the first comes after that of the second.
"""

import subprocess
import sys

from ddl.records import stack
from lessons import ROOT

LOG = ROOT / "build" / "beside.log"
PYTEST = [sys.executable, "-m", "pytest"]
FAST = ["--durations=10", "-m", "not slow"]
EVERY = ["--durations=15", "-p", "tests.plugins.no_skips", "--continue-on-collection-errors"]
# What the first session runs; the other has the rest, which takes about as long.
FIRST_OF_FAST = ["tests/launch"]
FIRST_OF_EVERY = ["tests/containers", "tests/grading", "tests/setup", "tests/slurm"]

# LAMB and the other optimizers; launching; every strategy against a single device, the text with Horovod's callbacks,
# and Keras 3.
NEXT = ["tests/unit/records", "tests/unit/training"]
NEXT += [f"tests/launch/test_{name}.py" for name in ("launch", "strategies", "train_text", "bug_hunt")]
NEXT_LESSON = [sys.executable, "tools/lessons.py", "run", "--size", "smoke", "1"]


def sessions(options) -> list[list]:
    every = "--all" in options
    options = [option for option in options if option != "--all"]
    if every and stack.name() == "next":
        return [NEXT_LESSON, [*PYTEST, *EVERY, *options, *NEXT]]
    first, options = (FIRST_OF_EVERY, [*EVERY, *options]) if every else (FIRST_OF_FAST, [*FAST, *options])
    rest = [f"--ignore={folder}" for folder in first]
    return [[*PYTEST, *options, *first], [*PYTEST, *options, *rest]]


def main(options) -> int:
    beside, shown = sessions(options)
    LOG.parent.mkdir(exist_ok=True)
    with open(LOG, "wb") as file:
        first = subprocess.Popen(beside, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
        try:
            second = subprocess.run(shown, cwd=ROOT).returncode
        finally:
            first.wait()  # Ctrl-C reaches both
            print(f"\nBeside these, {subprocess.list2cmdline(beside)}:\n{LOG.read_text(errors='replace')}", flush=True)
    return second or first.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
