"""What does launching cost? A trivial two-rank job: `ddl run` against stock `horovodrun --gloo`.

    python benchmarks/launch_overhead.py [--pairs 7]

The two are run in turn, so that a change of the machine's speed meets both; the ratio is taken pair
by pair and its median is the figure. Both start the same script, which initialises Horovod and
sums one number over the ranks. Aim: at most 0.65.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from ddl.rank.one_host import built_with
from turns import Turns, paired, print_pairs, run, take_turns

SCRIPT = """
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum) == hvd.size() == 2
"""
SHOW = "{:.2f} s".format


def seconds(command):
    """Return a function that runs a command and returns how long it took."""

    def clocked():
        began = time.perf_counter()
        run(command)
        return time.perf_counter() - began

    return clocked


def pairs(folder):
    """Return every pair's two sides: what it is, and how to measure it in seconds."""
    programs = Path(sys.executable).parent
    script = folder / "trivial.py"
    script.write_text(SCRIPT)
    return {
        "trivial": {
            "ddl run": seconds([programs / "ddl", "run", "--workers", "2", "--oversubscribe", script]),
            "horovodrun": seconds([programs / "horovodrun", "--gloo", "-np", "2", sys.executable, script]),
        }
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="counted pairs, after those not counted")
    parser.add_argument("--uncounted", type=int, default=1, help="pairs before them (default: 1)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="what to measure (default: everything)")
    parser.add_argument("--output", type=Path, default=Path("build/launch_overhead.json"))
    options = parser.parse_args()
    built_with()  # asked once, by the set-up as a rule, and kept
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DDL_RUNS_DIR"] = folder
        every = pairs(Path(folder))
        if unknown := set(options.only or ()) - set(every):
            parser.error(f"--only {' '.join(sorted(unknown))}: there are {', '.join(every)}")
        series = {
            name: Turns(sides, options.pairs, SHOW, options.uncounted)
            for name, sides in every.items()
            if name in (options.only or every)
        }
        report = take_turns(
            options.output,
            series,
            lambda rows: {"pairs": {name: paired(measured, "seconds") for name, measured in rows.items()}},
        )
    print_pairs(report["pairs"], SHOW)


if __name__ == "__main__":
    main()
