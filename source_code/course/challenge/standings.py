"""The board: every scored file beside the baseline, and one's own single runs."""

import itertools
import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from course.challenge.build import BASELINE as BASELINE_FILE
from course.challenge.journal import journals, sha256
from course.challenge.rules import BASELINE_SAMPLES, TARGET
from course.challenge.verdict import Score, median_interval
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.launcher.run import runs
from ddl.records.jsonfiles import DamagedFile, read_json_lines
from ddl.records.paths import reference_dir
from ddl.words import plural

BOARDS = {"samples": "samples", "time": "ratio"}
LABELS = {
    "name": ("submission", ""),
    "place": ("place", ".0f"),
    "samples": ("samples", ",.0f"),
    "ratio": ("time ÷ baseline's", ".2f"),
    "time_interval": ("interval", ""),
    "mean": ("private accuracy", ".2%"),
    "half_width": ("± 95 %", ".2%"),
    "n": ("runs", ".0f"),
    "p": ("p", ".2g"),
    "counts": ("counts", ""),
}


def board(by: str = "samples", root: Path | None = None) -> Table:
    """Return the board of what has been scored in this runs folder, with the recorded baseline and reference.

    Those that count come first, by "samples" or by "time" (their ratio to the baseline's); places are of the former.
    Scores on generated pictures and trials are left out; the caption says how many.
    """
    known = journals(root)
    real = [journal for journal in known if journal.data == "cifar10" and not journal.trial]
    rows = [standing(journal.score()) | {"kind": "own"} for journal in real]
    left_out = f" {plural(len(known) - len(real), 'score')} on other images or sizes left out." * (
        len(known) > len(real)
    )
    return table([*rows, *recorded()], by, left_out)


def table(rows: Iterable[dict], by: str = "samples", note: str = "") -> Table:
    """Return a board of `standing` rows, in order, with places."""
    if by not in BOARDS:
        raise InputError(f"by={by!r}: a board is by samples or by time")

    key, places = BOARDS[by], itertools.count(1)

    def known(row):
        return row[key] is not None and not math.isnan(row[key])

    rows = sorted(rows, key=lambda row: (not row["counts"], not known(row), row[key] if known(row) else 0, row["name"]))
    for row in rows:
        row["place"] = next(places) if row["counts"] and known(row) else None
    caption = (
        f"Target: {TARGET:.1%} of the private images. Places by {by}, of what counts; samples of the baseline: "
        f"{BASELINE_SAMPLES:,}.{note}"
    )
    shown = [{**row, "counts": "yes" if row["counts"] else "no"} for row in rows]
    if not shown:
        shown = [dict.fromkeys(LABELS)]
        caption = f"Nothing has been scored here yet: `ddl challenge score FILE`.{note}"
    found = Table.of([{name: (row.pop(name), *LABELS[name]) for name in LABELS} | row for row in shown], caption)
    found.attrs["target"] = TARGET
    return found


def standing(score: Score) -> dict[str, Any]:
    """One row of a board."""
    low, high, _ = median_interval(score.ratios)
    interval = f"{low:.2f} to {high:.2f}" if len(score.ratios) > 1 else None
    known = {name: getattr(score, name) for name in LABELS if hasattr(score, name)}
    return {**known, "ratio_low": low, "ratio_high": high, "time_interval": interval, "kind": "own"}


def recorded() -> list[dict[str, Any]]:
    """The baseline and the reference, as far as their runs are recorded in ``results/reference``.

    A line is a run's ``result.json`` with the judge's ``private_accuracy``. Those of ``challenge-times`` ran in turns,
    as in a score, and say which ``arm`` they are of: the reference, or the baseline with the same seed beside it.
    """
    turns = _recorded("challenge-times", {"arm": str, "seconds": float})
    beside = {line["seed"]: line["seconds"] for line in turns if line["arm"] == "baseline"}
    reference = [line for line in turns if line["arm"] == "reference"]
    ratios = [line["seconds"] / beside[line["seed"]] for line in reference if line["seed"] in beside]
    rows = []
    for kind, lines in {"baseline": _recorded("challenge-baseline"), "reference": reference}.items():
        if lines:
            score = Score(
                name=kind,
                accuracies=tuple(line["private_accuracy"] for line in lines),
                samples=lines[0]["samples"],
                ratios=tuple(ratios if kind == "reference" else ()),
            )
            rows.append(standing(score) | {"kind": kind} | ({"ratio": 1.0} if kind == "baseline" else {}))
    return rows


def _recorded(name, needs=None):
    needs = {"samples": int, "seed": int, "private_accuracy": float} | (needs or {})
    return read_json_lines(reference_dir() / f"{name}.jsonl", needs)


def attempts() -> list[dict[str, Any]]:
    """One's own single runs on CIFAR-10 (not those of a score), oldest first.

    Each has its ``name``, ``samples``, ``seconds``, ``public_accuracy`` and `ratio` of times.
    """
    results = _results()
    columns = ("samples", "seconds", "public_accuracy")
    return [
        {"name": name, **{column: result[column] for column in columns}, "ratio": ratio(result, results)}
        for name, result in results
        if not result["challenge"].get("score_id")
        and result.get("public_accuracy") is not None
        and _data_of(result) == "cifar10"
    ]


def baseline_seconds(workers: int, data: str, results: list[tuple[str, dict]] | None = None) -> float | None:
    """The median seconds of this machine's own whole runs of the baseline on so many ranks; None without any."""
    baseline = sha256(BASELINE_FILE.read_bytes())
    known = [
        result["seconds"]
        for _, result in (_results() if results is None else results)
        if result["challenge"].get("file") == baseline and result.get("world") == workers and _data_of(result) == data
    ]
    return statistics.median(known) if known else None


def ratio(result: dict, results: list[tuple[str, dict]] | None = None) -> float | None:
    """A run's seconds over `baseline_seconds` with as many ranks and the same pictures; None for a trial."""
    seconds = None if result.get("trial") else baseline_seconds(result.get("world"), _data_of(result), results)
    return None if seconds is None else result["seconds"] / seconds


def _data_of(result):
    return (result.get("data") or {}).get("name")


def _results():
    """The names and results of all whole runs of the challenge here, oldest first."""
    found = []
    for each in runs():
        try:
            result = each.result or {}
        except DamagedFile:
            continue
        if result.get("challenge") and result.get("seconds") and not result.get("trial"):
            found.append((each.name, result))
    return found
