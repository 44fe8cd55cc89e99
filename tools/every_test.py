"""Run every test, a skipped one being a failure: `make test-all`.

In two sessions of pytest beside each other: one makes environments and images, most of which is waiting for downloads
and compilers, and the other has the rest. The first one's output comes after the second's.
"""

import subprocess
import sys

from lessons import ROOT

PYTEST = [sys.executable, "-m", "pytest", "--durations=10", "-p", "tests.plugins.no_skips"]
PYTEST += ["--continue-on-collection-errors"]
MAKING = ["tests/containers", "tests/setup"]


def main() -> int:
    log = ROOT / "build" / "test-making.log"
    log.parent.mkdir(exist_ok=True)
    with open(log, "wb") as file:
        making = subprocess.Popen([*PYTEST, *MAKING], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
        try:
            rest = subprocess.run([*PYTEST, *(f"--ignore={folder}" for folder in MAKING)], cwd=ROOT).returncode
        finally:
            making.wait()  # Ctrl-C reaches both
            print(f"\n{' '.join(MAKING)}, beside these:\n{log.read_text(errors='replace')}", flush=True)
    return rest or making.returncode


if __name__ == "__main__":
    sys.exit(main())
