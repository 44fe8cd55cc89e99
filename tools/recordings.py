"""Cached runs for the recordings of `tools/reference.py`."""

import hashlib
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ddl import Run, launch
from ddl.records.jsonfiles import read_json, write_json

DIGITS = 6  # of a record's figures
TIMES = {"images_per_s", "seconds", "train_seconds", "time_to_first_step_s"}


class Silent:
    """A view that shows nothing."""

    def update(self, progress):
        pass

    def close(self, progress):
        pass


class Recordings:
    """Cache of results in the folder `work`.

    At most `jobs` ranks run at a time, by default one per core.
    """

    def __init__(self, work: Path, jobs: int | None = None):
        self.work = work
        self.work.mkdir(parents=True, exist_ok=True)
        os.environ["DDL_RUNS_DIR"] = str(work / "runs")
        self.jobs = jobs or os.cpu_count() or 1
        self._cores, self._acquiring = threading.Semaphore(self.jobs), threading.Lock()
        self._locks: dict = defaultdict(threading.Lock)
        self._running: set = set()
        self._ending = threading.Event()

    def kept(self, facts: Any, make: Callable[[], dict], ranks: int = 1) -> dict:
        """Return the result of `make`, cached by `facts`, which must be JSON values."""
        text = json.dumps(facts, sort_keys=True)
        path = self.work / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        with self._locks[path]:  # the same run may be one of two arms
            if not path.exists():
                cores = min(ranks, self.jobs)
                self._acquire(cores)
                try:
                    write_json(path, make())
                finally:
                    self._cores.release(cores)
        return read_json(path) or {}

    def _acquire(self, cores):
        with self._acquiring:  # acquire several at a time under a lock, to avoid a deadlock
            for _ in range(cores):
                self._cores.acquire()

    def finished(self, script: str | Path, name: str, **settings) -> Run:
        """Launch a run and return it when finished; exit if it fails."""
        if self._ending.is_set():
            raise KeyboardInterrupt
        run = launch(script, name=name, wait=False, check=False, **settings)
        self._running.add(run)
        try:
            run.wait(Silent())
        finally:
            self._running.discard(run)
        if run.result is None:
            if self._ending.is_set():
                raise KeyboardInterrupt
            sys.exit(f"a run failed, {name}: {run.failure or run.state}; its records are in {run.folder}")
        return run

    def together(self, function: Callable, *columns: Iterable) -> list:
        """Return ``[*map(function, *columns)]``, with as many calls at a time as there are cores."""
        calls = list(zip(*columns, strict=True))
        with ThreadPoolExecutor(max(1, len(calls))) as pool:
            futures = [pool.submit(function, *arguments) for arguments in calls]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self._ending.set()
                pool.shutdown(wait=False, cancel_futures=True)
                for run in list(self._running):
                    run.stop()
                raise


class Trainings(Recordings):
    """Runs of train_cifar.py, all with the settings `fixed`, and of other scripts."""

    def __init__(self, work: Path, jobs: int | None = None, **fixed):
        super().__init__(work, jobs)
        self.fixed = fixed
        self._began, self._made = time.monotonic(), 0

    def train(self, name: str, **settings) -> dict:
        """Return the cached result of a training with these settings."""
        return self.run("train_cifar.py", name, **self.fixed | settings)

    def run(self, script: str, name: str, **settings) -> dict:
        """Return the cached result of a script's run with these settings."""
        result = self.kept(
            [script, settings], lambda: self._make(script, name, settings), ranks=settings.get("workers", 1)
        )
        return {**compact(result), "name": name}

    def _make(self, script, name, settings):
        result = self.finished(script, name, **{"workers": 1, "threads": 1} | settings).result
        self._made += 1
        about = f"{time.monotonic() - self._began:6.0f} s  {self._made:4d}  {name}, seed {result['seed']}"
        if "stopped_by" in result:
            about += (
                f", batch {result['global_batch']}, rate {result['learning_rate']:.4g}: {result['stopped_by']} after "
                f"{result['samples']:,} samples, {result['test_accuracy']:.1%}"
            )
        print(about, flush=True)
        return result


def compact(result: dict) -> dict:
    """Return a result without unused fields and times, with rounded figures.

    Several runs share the machine, so their speed says nothing about the arm.
    """
    result = {key: value for key, value in result.items() if key not in ("start_s", "epoch_seconds", "resumed_at")}
    for row in (result, *result.get("history", [])):
        row |= dict.fromkeys(TIMES & row.keys())
    return rounded(result)


def rounded(value: Any) -> Any:
    """Return JSON values with rounded figures."""
    return json.loads(json.dumps(value), parse_float=lambda text: float(f"{float(text):.{DIGITS}g}"))
