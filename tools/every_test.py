"""Run every test, a skipped one being a failure: `make test-all`. Further options go to pytest.

In two sessions of pytest beside each other, as one leaves a core idle half of the time. What one of them starts the
other leaves alone. The output of the first comes after that of the second.
"""

import subprocess
import sys

from lessons import ROOT

PYTEST = [sys.executable, "-m", "pytest", "--durations=15", "-p", "tests.plugins.no_skips"]
PYTEST += ["--continue-on-collection-errors"]
FIRST = ["tests/grading", "tests/setup", "tests/slurm"]  # the other has the rest, which takes about as long


def main(options) -> int:
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
