"""Record the results that lesson 4 compares with: `make reference`, about an hour on two cores.

The arms are the lesson's own cells, executed once a seed on CIFAR-10, so that a recorded run and a
reader's run differ in nothing but machine and seed; then a grid of base learning rates for each
optimizer. Runs that are done are kept under build/reference/, so an interrupted recording resumes.
Written to results/reference/: one result.json a line, with hardware, date, versions and data in it.
"""

import json
import os
import sys
from pathlib import Path

from ddl.data import is_there
from ddl.recipes import BASE_RATES
from ddl.record import read_json, write_json
from lessons import ROOT
from line import Line

LESSON = ROOT / "notebooks" / "4.Convergence.ipynb"
BUILD = ROOT / "build" / "reference"
RESULTS = ROOT / "results" / "reference"

SEEDS = (0, 1, 2)
# Another seed than those of the arms: a rate is not chosen on the runs that it is judged by.
GRID_SEED = 100
GRID = {"SGD": "warmup", "LARS": "lars", "LAMB": "lamb"}
FACTORS = (0.5, 1, 2)
GRID_OPTIONS = dict(global_batch=1024, train_samples=10_000, test_samples=10_000, epochs=8,
                    schedule="cosine", data_set="cifar10", seed=GRID_SEED, workers=2)


def main():
    if not is_there("cifar10"):
        sys.exit("reference results are measured on CIFAR-10, and it is not here: "
                 "`ddl data fetch cifar10`, or set DDL_DATA_DIR to the folder that holds it")
    arms = [result for seed in SEEDS for result in lesson_runs(seed)]
    keep("convergence-cifar10", arms)
    keep("convergence-grid", grid_runs())


def lesson_runs(seed):
    """Execute the lesson's cells for one seed, unless that is done; return its results."""
    import nbformat

    done = BUILD / f"seed-{seed}.json"
    if not done.exists():
        notebook = nbformat.read(LESSON, as_version=4)
        notebook.cells = [cell for cell in notebook.cells
                          if "recorded" not in cell.metadata.get("tags", [])]
        BUILD.mkdir(parents=True, exist_ok=True)
        source = BUILD / f"seed-{seed}.ipynb"
        nbformat.write(notebook, source)
        runs = BUILD / f"seed-{seed}"
        line = Line("lesson 4", f"seed {seed}")
        line.run([sys.executable, "-m", "papermill", source, source, "-p", "seed", str(seed),
                  "-p", "data_set", "cifar10", "--kernel", "python3", "--log-output",
                  "--no-progress-bar", "--cwd", LESSON.parent],
                 BUILD / f"seed-{seed}.log", {**os.environ, "DDL_RUNS_DIR": str(runs),
                                              "DDL_VIEW": "plain"})
        line.end("done")
        write_json(done, {"runs": [read_json(path) for path in sorted(runs.glob("*/result.json"))]})
    return read_json(done)["runs"]


def grid_runs():
    """Run every optimizer at every factor of its base rate, unless that is done."""
    from ddl import launch

    results = []
    for label, recipe in GRID.items():
        optimizer = recipe if recipe in BASE_RATES else "sgd"
        for factor in FACTORS:
            done = BUILD / f"grid-{recipe}-{factor}.json"
            if not done.exists():
                run = launch("train_cifar.py", name=f"{label}, base rate × {factor:g}",
                             recipe=recipe, learning_rate=factor * BASE_RATES[optimizer],
                             **GRID_OPTIONS)
                write_json(done, run.result)
            results.append(read_json(done))
    return results


def keep(name, results):
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.jsonl"
    path.write_text("".join(json.dumps(result) + "\n" for result in results))
    print(f"{len(results)} results in {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
