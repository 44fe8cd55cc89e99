"""What does launching cost? Seconds of whole commands, in pairs, and of a training's start by part.

    python benchmarks/launch_overhead.py [--pairs 7] [--only NAME ...]

warm         `ddl run` of a trivial two-rank job, from a template that has TensorFlow imported (`ddl warm`), against
             stock `horovodrun --gloo`: the script initialises Horovod and sums one number. Aim: at most 0.12
cold         the same without a template. Aim: at most 0.50
first step   train_cifar.py on two ranks, warm against cold: from the launch to the end of its first training step, as
             rank 0 records it (`start_s` in result.json), with the medians of each part. Aim: at most 0.35

Sides are run in turn, so that a change of the machine's speed meets both; the ratio is taken pair by pair, and its
median is the figure.
"""

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

from ddl.launcher import warm
from ddl.rank.one_host import built_with
from ddl.records.jsonfiles import read_json
from ddl.records.paths import runs_dir
from turns import Turns, paired, print_pairs, run, take_turns

SCRIPT = """
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum) == hvd.size() == 2
"""
PROGRAMS = Path(sys.executable).parent
LAUNCH = (PROGRAMS / "ddl", "run", "--workers", "2", "--oversubscribe")
TRAINING = ("train_cifar.py", "--steps", "1", "--test-samples", "100")


def seconds(command):
    began = time.perf_counter()
    run(command)
    return time.perf_counter() - began


def first_step(*how):
    """Launch train_cifar.py; return the seconds until the end of its first step, by part and in total."""
    before = set(runs_dir().iterdir())
    run([*LAUNCH, *how, *TRAINING])
    (folder,) = set(runs_dir().iterdir()) - before
    parts = read_json(folder / "result.json")["start_s"]
    return {**parts, "total": sum(parts.values())}


def series(script):
    """Every pair's two sides: what it is, and how to measure it."""
    stock = partial(seconds, [PROGRAMS / "horovodrun", "--gloo", "-np", "2", sys.executable, script])
    return {
        "warm": {"ddl run": partial(seconds, [*LAUNCH, script]), "horovodrun": stock},
        "cold": {"ddl run --cold": partial(seconds, [*LAUNCH, "--cold", script]), "horovodrun": stock},
        "first step": {"warm": first_step, "cold": partial(first_step, "--cold")},
    }


def show(measured):
    if not isinstance(measured, dict):
        return f"{measured:.2f} s"
    parts = (f"{part} {value:.2f} s" for part, value in measured.items() if part != "total")
    return f"{measured['total']:.2f} s: {', '.join(parts)}"


def summary(rows):
    """Pairs of seconds, and of the first step also the median of each part."""
    report = {"pairs": {name: paired(measured, "seconds") for name, measured in rows.items() if name != "first step"}}
    if steps := rows.get("first step"):
        totals = [{side: parts["total"] for side, parts in row.items()} for row in steps]
        report["pairs"]["first step"] = paired(totals, "seconds")
        report["first_step_s"] = {
            side: {part: median(row[side][part] for row in steps) for part in steps[0][side]} for side in steps[0]
        }
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="counted pairs, after those not counted")
    parser.add_argument("--uncounted", type=int, default=1, help="pairs before them (default: 1)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="what to measure (default: everything)")
    parser.add_argument("--output", type=Path, default=Path("build/launch_overhead.json"))
    options = parser.parse_args()
    built_with()  # asked once, by the set-up as a rule, and kept
    earlier = {template["pid"] for template in warm.running()}
    os.environ.pop("DDL_WARM", None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DDL_RUNS_DIR"] = folder
        script = Path(folder) / "trivial.py"
        script.write_text(SCRIPT)
        every = series(script)
        if unknown := set(options.only or ()) - set(every):
            parser.error(f"--only {' '.join(sorted(unknown))}: choose from {', '.join(every)}")
        chosen = [name for name in every if name in (options.only or every)]
        template = {} if chosen == ["cold"] else warm.await_ready()
        try:
            report = take_turns(
                options.output,
                {name: Turns(every[name], options.pairs, show, options.uncounted) for name in chosen},
                summary,
                template=template,
            )
        finally:
            warm.stop({template.get("pid", 0)} - earlier)
    print_pairs(report["pairs"], show)
    for side, parts in report.get("first_step_s", {}).items():
        print(f"first step, {side}: {show(parts)}")


if __name__ == "__main__":
    main()
