"""Record again what lessons compare with: `make reference`, about nine hours on two cores.

tools/experiments.toml lists the experiments. Each takes the runs in its records in results/reference again, with the
same scripts, arguments, seeds, ranks and threads. Results go to build/reference/results/, one JSON object a line, with
hardware, date, versions, precision and data in it. Their difference to the recorded results is printed.
Runs that are done are kept, so an interrupted recording resumes. `--results results/reference` replaces the records.

`--smoke` takes two short runs of each file, to check that recording works.
"""

import argparse
import hashlib
import json
import os
import shlex
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from course.multi_gpu import mistakes
from course.training import timeline
from course.training.precision import choose
from ddl import Run, hosts, launch
from ddl.display.table import is_number
from ddl.errors import CourseError
from ddl.paired_stats import Paired
from ddl.records import stack
from ddl.records.jsonfiles import read_json, read_json_lines, write_json
from lessons import ROOT

RECORDS = ROOT / "results" / "reference"
DIGITS = 6  # of a record's figures
TIMES = {"images_per_s", "seconds", "train_seconds", "time_to_first_step_s"}
UNUSED = {"start_s", "epoch_seconds", "resumed_at"}
ADDED = ("configuration", "role", "pair", "rate", "rest", "target", "command")  # fields of no script
FACTS: dict[str, Callable[[Run], Any]] = {
    "sent": lambda run: timeline.sent(run.folder / timeline.FILE),
    "step_records": mistakes.step_records,
}
SMOKE = {
    "train_cifar.py": "--data-set synthetic --train-samples 2048 --test-samples 200 --steps 4 --warmup-epochs 0",
    "hierarchical_allreduce.py": "--max-bytes 4096",
}


class Silent:
    """A view that shows nothing."""

    def update(self, progress):
        pass

    def close(self, progress):
        pass


@dataclass(frozen=True)
class Wanted:
    """A run to record."""

    name: str
    script: str
    args: tuple[str, ...]
    seed: int | None
    workers: int = 1
    nodes: int | None = None
    threads: int = 1
    rate_mbit: int | None = None
    facts: tuple[str, ...] = ()
    added: dict = field(default_factory=dict)  # fields of the record that no script writes

    @property
    def key(self) -> str:
        """What the run's result is kept under."""
        facts = [self.script, self.args, self.workers, self.nodes, self.threads, self.rate_mbit, self.added]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def wanted(experiment: dict, file: str, smoke: bool) -> list[Wanted]:
    """Return the runs of one of an experiment's files: of its configurations, or of the records."""
    rows = list(_of_configurations(experiment) if "configurations" in experiment else _of_records(experiment, file))
    return [_short(row, experiment.get("smoke")) for row in rows[:2]] if smoke else rows


def _short(run: Wanted, arguments: str | None) -> Wanted:
    more = SMOKE.get(run.script, "") if arguments is None else arguments
    return replace(run, args=(*run.args, *shlex.split(more)))


def _of_configurations(experiment: dict) -> Iterator[Wanted]:
    for seed in range(experiment["seeds"]):
        for name, own in experiment["configurations"].items():
            words = shlex.split(f"{experiment['arguments']} {own} --seed {seed}")
            places = {key: experiment[key] for key in ("workers", "threads")}
            facts = tuple(experiment.get("facts", ()))
            yield Wanted(
                name, experiment["script"], tuple(words), seed, facts=facts, added={"configuration": name}, **places
            )


def _of_records(experiment: dict, file: str) -> Iterator[Wanted]:
    for row in read_json_lines(RECORDS / f"{file}.jsonl"):
        yield Wanted(
            name=row["name"],
            script=row["script"],
            args=tuple(row["argv"]),
            seed=row.get("seed"),
            workers=row["ranks"],
            nodes=row.get("hosts"),
            threads=row["threads_per_rank"],
            rate_mbit=row.get("rate_mbit"),
            facts=tuple(experiment.get("facts", ())),
            added={key: row[key] for key in ADDED if key in row},
        )


class Runner:
    """Takes runs, as many ranks at a time as there are cores, and keeps their results in a folder."""

    def __init__(self, work: Path):
        self.work = work
        work.mkdir(parents=True, exist_ok=True)
        os.environ["DDL_RUNS_DIR"] = str(work / "runs")
        self._running: set[Run] = set()
        self._ending = threading.Event()

    def record(self, runs: list[Wanted], alone: bool) -> list[dict]:
        """Return the runs' results, in order; those of runs that are `alone` with their times."""
        ranks = max((run.workers for run in runs), default=1)
        with ThreadPoolExecutor(1 if alone else max(1, (os.cpu_count() or 1) // ranks)) as pool:
            futures = [pool.submit(self._kept, run, alone) for run in runs]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self._ending.set()
                pool.shutdown(wait=False, cancel_futures=True)
                for run in list(self._running):
                    run.stop()
                raise

    def _kept(self, run: Wanted, alone: bool) -> dict:
        path = self.work / f"{run.key}.json"
        result = read_json(path)
        if result is None:
            result = self._make(run)
            write_json(path, result)
        if not alone:  # several runs shared the machine, so their speed says nothing about the configuration
            for row in (result, *result.get("history", ())):
                row |= dict.fromkeys(TIMES & row.keys())
        return rounded({key: value for key, value in result.items() if key not in UNUSED} | {"name": run.name})

    def _make(self, run: Wanted) -> dict:
        load = os.getloadavg()[0]
        site = None if run.rate_mbit is None else hosts.site(run.rate_mbit)
        places = {"workers": run.workers, "nodes": run.nodes, "threads": run.threads, "site": site}
        done = self._finished(run.script, run.name, run.args, **places)
        print(f"  {run.name}" + ("" if run.seed is None else f", seed {run.seed}"), flush=True)
        facts = {name: FACTS[name](done) for name in run.facts}
        return {**done.result, **run.added, **facts, "load_before": load}

    def _finished(self, script: str, name: str, args: tuple, **places: Any) -> Run:
        if self._ending.is_set():
            raise KeyboardInterrupt
        run = launch(script, name=name, args=args, wait=False, check=False, oversubscribe=True, **places)
        self._running.add(run)
        try:
            run.wait(Silent())
        finally:
            self._running.discard(run)
        if run.result is None:
            if self._ending.is_set():
                raise KeyboardInterrupt
            why = run.failure.sentence if run.failure else run.state
            sys.exit(f"a run failed, {name}: {why}; its records are in {run.folder}")
        return run


def rounded(value: Any) -> Any:
    """Return JSON values with rounded figures."""
    return json.loads(json.dumps(value), parse_float=lambda text: float(f"{float(text):.{DIGITS}g}"))


def compared(again: list[dict], before: list[dict], figure: str) -> str:
    """Return how a figure of results differs from the recorded ones, paired by name, role, seed and arguments."""

    def by_run(rows):
        keys = (
            (row["name"], row.get("role"), row.get("seed"), row.get("pair"), row.get("learning_rate")) for row in rows
        )
        return {key: row[figure] for key, row in zip(keys, rows, strict=True) if is_number(row.get(figure))}

    new, old = by_run(again), by_run(before)
    differences = tuple(new[key] - old[key] for key in new if key in old)
    if not differences:
        return f"{figure}: nothing to compare"
    pairs = Paired(differences)
    return f"{figure}, again − recorded: {pairs.mean:+.4g} ± {pairs.half_width:.2g} ({pairs.n} pairs)"


def main() -> None:
    table = tomllib.loads((ROOT / "tools" / "experiments.toml").read_text())
    listed = "\n".join(
        f"  {name:22} lesson {each['lesson']}, {each['minutes']:3} minutes: {each['what']}"
        for name, each in table.items()
    )
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\nexperiments:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=table, metavar="EXPERIMENT")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "reference")
    parser.add_argument("--results", type=Path, help="default: results/ in the folder of --work")
    options = parser.parse_args()
    results = options.results or options.work / "results"
    results.mkdir(parents=True, exist_ok=True)
    for name, experiment in table.items():
        if options.only not in (None, name) or (
            not options.only and experiment.get("stack", "default") != stack.name()
        ):
            continue
        if experiment.get("bfloat16"):
            choose("bfloat16")  # raises an error now if the processor can't
        figure = experiment.get("figure", "test_accuracy")
        for file in experiment["files"]:
            runs, before = wanted(experiment, file, options.smoke), RECORDS / f"{file}.jsonl"
            print(f"{name}: {len(runs)} runs of {file}", flush=True)
            rows = Runner(options.work / name).record(runs, experiment.get("alone", False))
            recorded, path = read_json_lines(before) if before.exists() else [], results / f"{file}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            print(f"{len(rows)} results in {path}; {compared(rows, recorded, figure)}")


if __name__ == "__main__":
    try:
        main()
    except CourseError as error:
        sys.exit(f"reference.py: {error}")
