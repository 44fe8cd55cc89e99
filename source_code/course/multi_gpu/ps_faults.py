"""Faults in parameter-server training: recorded launches of `strategies/parameter_server.py`."""

import math
import statistics

from ddl.display.style import hardware_label
from ddl.display.table import Table
from ddl.records.jsonfiles import JsonLines
from ddl.records.paths import reference_dir

CASES = {
    "plain": "both workers run",
    "held": "worker 1 is suspended nine tenths of the time",
    "stopped": "worker 1 stands still",
    "worker lost": "worker 1 is killed",
    "server lost": "the parameter server is killed",
}


def records() -> dict[str, list[dict]]:
    """Return the recorded launches by case."""
    rows = list(JsonLines(reference_dir() / "parameter-server.jsonl").look())
    return {case: [row for row in rows if row["case"] == case] for case in CASES}


def table() -> Table:
    """Tabulate, by case, the median updates per second, the duration and the end of the run."""
    found, rows = records(), []
    for case, what in CASES.items():
        speeds = [row["updates_per_s"] for row in found[case] if "updates_per_s" in row]
        last = found[case][-1]
        end = {"failed": "the run ended"}.get(last.get("state"), "waits" if case == "stopped" else "goes on")
        rows.append(
            {
                "what": (what, "process", ""),
                "updates_per_s": (statistics.median(speeds) if speeds else math.nan, "updates/s, median", ".3g"),
                "went_on_s": (last.get("went_on_s", math.nan), "went on for s", ".1f"),
                "end": (end, "then", ""),
            }
        )
    one = found["plain"][0]
    caption = f"Recorded on {one['recorded']} on {hardware_label(one['hardware'])}, not measured here."
    return Table.of(rows, caption)
