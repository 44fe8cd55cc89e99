"""What does launching cost? A trivial two-rank job: `ddl run` against stock `horovodrun --gloo`.

    python benchmarks/launch_overhead.py [--pairs 7]

The two are run in turn, so that a change of the machine's speed meets both; the ratio is taken pair
by pair and its median is the figure. Both start the same script, which initialises Horovod and
sums one number over the ranks. Aim: at most 0.65.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from ddl.rank.one_host import built_with
from ddl.records.jsonfiles import write_json
from ddl.records.machine import hardware, versions

SCRIPT = """
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum) == hvd.size() == 2
"""


def seconds(command):
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="counted pairs, after one not counted")
    parser.add_argument("--output", type=Path, default=Path("build/launch_overhead.json"))
    options = parser.parse_args()
    programs = Path(sys.executable).parent
    built_with()  # asked once, by the set-up as a rule, and kept
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DDL_RUNS_DIR"] = folder
        script = Path(folder) / "trivial.py"
        script.write_text(SCRIPT)
        ours = [programs / "ddl", "run", "--workers", "2", "--oversubscribe", script]
        stock = [programs / "horovodrun", "--gloo", "-np", "2", sys.executable, script]
        pairs = []
        for number in range(options.pairs + 1):
            pair = seconds(ours), seconds(stock)
            kept = "not counted" if number == 0 else f"ratio {pair[0] / pair[1]:.2f}"
            print(f"ddl run {pair[0]:5.2f} s   horovodrun {pair[1]:5.2f} s   {kept}", flush=True)
            pairs.append(pair)
    pairs = pairs[1:]
    ratios = sorted(a / b for a, b in pairs)
    result = {
        "ddl_run_s": median(a for a, _ in pairs),
        "horovodrun_s": median(b for _, b in pairs),
        "ratio": median(ratios),
        "ratio_range": [ratios[0], ratios[-1]],
        "pairs": len(pairs),
        "date": time.strftime("%Y-%m-%d"),
        "hardware": hardware(),
        "versions": versions(),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_json(options.output, result)
    print(
        f"median of {len(pairs)} pairs: {result['ddl_run_s']:.2f} s against "
        f"{result['horovodrun_s']:.2f} s, ratio {result['ratio']:.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}); written to {options.output}"
    )


if __name__ == "__main__":
    main()
