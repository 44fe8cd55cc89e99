"""Benchmark of launch overhead: seconds of whole commands, in pairs, and of the parts of a training's start.

    python benchmarks/launch_overhead.py [--pairs 7] [--only NAME ...]

warm         `launch` in a notebook kernel, whose fork server has imported TensorFlow, against stock
             `horovodrun --gloo`: a two-rank script that initializes Horovod and sums one number. Aim: at most 0.10
live         a `%%ranks` cell with one all-reduce on two ranks that are live, against a warm `launch` of the same. Aim:
             at most 0.10, and 50 ms
cold         `ddl run` of the same script in a terminal, against the same. Aim: at most 0.50
first step   train_cifar.py on two ranks, launched from the kernel warm and cold: from the launch to the end of its
             first training step, as rank 0 records it (`start_s` in result.json), with the median of each part.
             Aim: at most 0.30

The sides alternate, so changes in the machine's speed affect both. The result is the median of the pairs' ratios.
"""

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

from jupyter_client.manager import start_new_kernel

from ddl.records.jsonfiles import read_json
from ddl.records.paths import runs_dir
from turns import Turns, paired, print_pairs, run, take_turns

SCRIPT = """
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum) == hvd.size() == 2
"""
LIVE = """%%ranks 2 --oversubscribe
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
"""
CELL = "%%ranks\nassert hvd.allreduce(tf.constant(1.0), op=hvd.Sum) == hvd.size() == 2"
PROGRAMS = Path(sys.executable).parent
LAUNCH = (PROGRAMS / "ddl", "run", "--workers", "2", "--oversubscribe")


def seconds(command):
    began = time.perf_counter()
    run(command)
    return time.perf_counter() - began


class Kernel:
    """A notebook kernel that launches scripts."""

    def __init__(self):
        self._manager, self._client = start_new_kernel(kernel_name="python3")
        self.execute("from ddl import launch\n%load_ext ddl")

    def execute(self, code):
        """Run a cell; RuntimeError if it fails."""
        reply = self._client.execute_interactive(code, timeout=300, output_hook=lambda message: None)["content"]
        if reply["status"] != "ok":
            raise RuntimeError(f"{code}: {reply.get('ename')}: {reply.get('evalue')}")

    def seconds(self, code):
        began = time.perf_counter()
        self.execute(code)
        return time.perf_counter() - began

    def close(self):
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def live_cell(kernel):
    """Return the seconds of a cell on ranks that are live only for this, as they would take time from other series."""
    for cell in (LIVE, CELL):
        kernel.execute(cell)
    seconds = kernel.seconds(CELL)
    kernel.execute("%ranks stop")
    return seconds


def first_step(kernel, warm):
    """Launch train_cifar.py; return the seconds until the end of its first step, by part and in total."""
    before = set(runs_dir().iterdir())
    kernel.execute(f"launch('train_cifar.py', steps=1, test_samples=100, oversubscribe=True, warm={warm})")
    (folder,) = set(runs_dir().iterdir()) - before
    parts = read_json(folder / "result.json")["start_s"]
    return {**parts, "total": sum(parts.values())}


def series(script, kernel):
    """Return the two sides of each comparison: a name, and a function that measures it."""
    stock = partial(seconds, [PROGRAMS / "horovodrun", "--gloo", "-np", "2", sys.executable, script])
    return {
        "warm": {
            "launch": partial(kernel.seconds, f"launch({str(script)!r}, oversubscribe=True)"),
            "horovodrun": stock,
        },
        "live": {
            "cell": partial(live_cell, kernel),
            "launch": partial(kernel.seconds, f"launch({str(script)!r}, oversubscribe=True)"),
        },
        "cold": {"ddl run": partial(seconds, [*LAUNCH, script]), "horovodrun": stock},
        "first step": {"warm": partial(first_step, kernel, True), "cold": partial(first_step, kernel, False)},
    }


def show(measured):
    if not isinstance(measured, dict):
        return f"{measured:.3g} s"
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
    parser.add_argument("--pairs", type=int, default=7, help="counted pairs, after the uncounted ones")
    parser.add_argument("--uncounted", type=int, default=1, help="uncounted pairs before them (default: 1)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="what to measure (default: everything)")
    parser.add_argument("--output", type=Path, default=Path("build/launch_overhead.json"))
    options = parser.parse_args()
    os.environ.pop("DDL_WARM", None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DDL_RUNS_DIR"] = folder
        script = Path(folder) / "trivial.py"
        script.write_text(SCRIPT)
        kernel = Kernel()
        every = series(script, kernel)
        if unknown := set(options.only or ()) - set(every):
            parser.error(f"--only {' '.join(sorted(unknown))}: choose from {', '.join(every)}")
        chosen = [name for name in every if name in (options.only or every)]
        try:
            report = take_turns(
                options.output,
                {name: Turns(every[name], options.pairs, show, options.uncounted) for name in chosen},
                summary,
            )
        finally:
            kernel.close()
    print_pairs(report["pairs"], show)
    for side, parts in report.get("first_step_s", {}).items():
        print(f"first step, {side}: {show(parts)}")


if __name__ == "__main__":
    main()
