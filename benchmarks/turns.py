"""Interleaved measurements, with a report after each round that survives Ctrl-C."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from ddl.follow import processes
from ddl.records.jsonfiles import write_json
from ddl.records.machine import hardware, versions

MARK = "DDL_BENCHMARK"  # in the environment of every process that a benchmark starts
GRACE_S = 2.0


@dataclass(frozen=True)
class Turns:
    """Sides measured in the order A B A B ..., so that other load slows all equally.

    `sides` maps names to functions that measure, `show` formats a result, and `uncounted` rounds precede the `rounds`
    that count.
    """

    sides: Mapping[str, Callable[[], Any]]
    rounds: int
    show: Callable[[Any], str]
    uncounted: int = 0


def take_turns(
    output: Path, series: Mapping[str, Turns], summary: Callable[[dict[str, list[dict]]], dict], **facts: Any
) -> dict:
    """Measure all series and return the report, which is written to `output` after each round.

    `summary` computes figures from the rounds so far (results of each side by series), without empty series. The report
    has `facts`, these figures, and under "missing" the remaining rounds by series. Ctrl-C ends the benchmark's
    processes and exits with status 130.
    """
    machine = hardware()
    date = datetime.now().astimezone().isoformat(timespec="seconds")
    facts = {"date": date, "hardware": machine, "versions": versions(), "load_before": os.getloadavg()[0], **facts}
    output.parent.mkdir(parents=True, exist_ok=True)
    os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"
    signal.signal(signal.SIGINT, _interrupt_once)
    counted: dict[str, list[dict]] = {}
    report: dict = {}
    try:
        print(
            f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {date[:10]}, "
            f"load before: {facts['load_before']:.1f}",
            flush=True,
        )
        for name, turns in series.items():
            for number in range(1 - turns.uncounted, turns.rounds + 1):
                row = {side: _measured(name, turns, number, side) for side in turns.sides}
                if number > 0:
                    counted.setdefault(name, []).append(row)
                    report = {**facts, **summary(counted), "missing": _missing(series, counted)}
                    write_json(output, report)
    except KeyboardInterrupt:
        print(f"interrupted: {_kept(output, series, counted)}", file=sys.stderr)
        sys.exit(130)
    finally:
        end_processes()
    print(f"written to {output}")
    return report


def _interrupt_once(*_: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ignore interrupts while ending the processes
    raise KeyboardInterrupt


def _measured(name: str, turns: Turns, number: int, side: str) -> Any:
    began = time.perf_counter()
    result = turns.sides[side]()
    which = f"{number} of {turns.rounds}" if number > 0 else "not counted"
    print(f"{name} {which}, {side}: {turns.show(result)} ({time.perf_counter() - began:.0f} s)", flush=True)
    return result


def _missing(series: Mapping[str, Turns], counted: Mapping[str, list]) -> dict[str, int]:
    rounds = {name: turns.rounds - len(counted.get(name, ())) for name, turns in series.items()}
    return {name: number for name, number in rounds.items() if number}


def _kept(output: Path, series: Mapping[str, Turns], counted: Mapping[str, list]) -> str:
    if not counted:
        return f"no round was over, so {output} is as it was"
    lacks = [f"{name} ({number} of {series[name].rounds} rounds)" for name, number in _missing(series, counted).items()]
    return f"{output} has what was measured{', and lacks ' * bool(lacks)}{', '.join(lacks)}"


def run(command: list, env: Mapping[str, str] | None = None) -> str:
    """Return a command's output; if it fails, exit with the end of its output."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    except BaseException:
        end_processes()  # including a launcher's ranks, before their folder is deleted
        raise
    if done.returncode:
        words = (done.stdout + done.stderr)[-3000:]
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{words}")
    return done.stdout


def end_processes() -> None:
    """End all running processes that the benchmark has started."""
    if mark := os.environ.get(MARK):
        processes.end(mark, {os.getpid()}, GRACE_S, MARK)


def paired(rows: list[dict[str, float]], unit: str) -> dict:
    """Return two sides' figures: every pair in `unit`, both medians, and the pairs' ratios: their median and range."""
    a, b = rows[0]
    ratios = [row[a] / row[b] for row in rows]
    return {
        "a": a,
        "b": b,
        unit: [[row[a], row[b]] for row in rows],
        "median_a": median(row[a] for row in rows),
        "median_b": median(row[b] for row in rows),
        "ratio": median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
    }


def compare_images_per_s(sides: Mapping[str, Mapping[str, Callable[[], float]]], options: Any, **facts: Any) -> None:
    """Measure pairs of sides in turns and print them; the runs' folders are deleted afterward.

    `options` are a command line's `output`, `repeats`, `steps` and `model`.
    """
    show = "{:.0f} images/s".format
    os.environ["DDL_VIEW"] = "plain"
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("DDL_RUNS_DIR", folder)
        report = take_turns(
            options.output,
            {name: Turns(both, options.repeats, show) for name, both in sides.items()},
            lambda rows: {"pairs": {name: paired(measured, "images_per_s") for name, measured in rows.items()}},
            **{name: getattr(options, name) for name in ("model", "repeats", "steps")},
            **facts,
        )
    print_pairs(report["pairs"], show)


def print_pairs(pairs: Mapping[str, dict], show: Callable[[float], str]) -> None:
    """Print one line for each pair of `paired`."""
    for name, pair in pairs.items():
        low, high = pair["ratio_range"]
        print(
            f"{name}: {pair['a']}: {show(pair['median_a'])}, {pair['b']}: {show(pair['median_b'])}, "
            f"ratio {pair['ratio']:.2f} ({low:.2f} to {high:.2f})"
        )
