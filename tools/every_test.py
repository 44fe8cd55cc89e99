"""Run every test, a skipped one being a failure: `make test-all`. Further options go to pytest.

On the next stack these are the ones on which its TensorFlow has a say, and one lesson: all others hold on the default.

In two sessions of pytest beside each other, as one leaves a core idle half of the time. What one of them starts the
other leaves alone. The output of the first comes after that of the second.
"""

import subprocess
import sys

from ddl.records import stack
from lessons import ROOT

PYTEST = [sys.executable, "-m", "pytest", "--durations=15", "-p", "tests.plugins.no_skips"]
PYTEST += ["--continue-on-collection-errors"]
FIRST = ["tests/grading", "tests/setup", "tests/slurm"]  # the other has the rest, which takes about as long


# Set-up; LAMB and the other optimizers; launching, every strategy against a single device, the text with Horovod's
# callbacks, and Keras 3.
NEXT = ["tests/unit/setup", "tests/unit/records", "tests/unit/training"]
NEXT += [f"tests/launch/test_{name}.py" for name in ("launch", "strategies", "train_text", "bug_hunt")]
NEXT_LESSON = [sys.executable, "tools/lessons.py", "run", "--size", "smoke", "3"]


def main(options) -> int:
    if stack.name() == "next":
        commands = [[*PYTEST, *options, *NEXT], NEXT_LESSON]
        return max([subprocess.run(command, cwd=ROOT).returncode for command in commands])
    log = ROOT / "build" / "test-first.log"
    log.parent.mkdir(exist_ok=True)
    with open(log, "wb") as file:
        first = subprocess.Popen([*PYTEST, *options, *FIRST], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
        try:
            rest = [*PYTEST, *options, *(f"--ignore={folder}" for folder in FIRST)]
            second = subprocess.run(rest, cwd=ROOT).returncode
        finally:
            first.wait()  # Ctrl-C reaches both
            print(f"\n{' '.join(FIRST)}, beside these:\n{log.read_text(errors='replace')}", flush=True)
    return second or first.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
