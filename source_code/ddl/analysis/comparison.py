"""The comparison of runs: a table with one row an arm."""

import math
import statistics

import pandas

from ddl.display.style import data_label
from ddl.display.table import Shown, cell, is_number
from ddl.errors import InputError

__all__ = ["Comparison", "compare"]


def compare(runs, at=None, steps=None, epochs=None) -> "Comparison":
    """Tabulate runs, one row an arm; runs with the same name are the seeds of one arm.

    Rows are in the order in which names first appear; recorded runs make rows of their own, and a run without a result
    (failed, stopped) is counted in its row's note. By default final results are compared; ``at="epochs"`` and
    ``at="steps"`` compare after equally many samples or optimizer steps, at each run's last evaluation up to there.
    `steps` or `epochs` says how many; by default the most that every run reached.

    Accuracies are fractions; ``test_accuracy_sd`` is the sample standard deviation over the `seeds`, NaN for one.
    ``ratio`` is throughput over the first arm's, NaN where the hardware or ranks × threads differ. ``verdict`` compares
    held-out accuracy with the best arm on the same data (recorded arms among themselves): the gap in points, or "no
    difference" where the means are no further apart than the pooled standard deviation ``sqrt((s1² + s2²) / 2)``.
    ``note`` marks a row that computes in another ``precision`` than the first.
    """
    if at not in (None, "epochs", "steps"):
        raise InputError(f"at={at!r}: compare at 'epochs', at 'steps', or leave it out for the end")
    runs = list(runs)
    if not runs:
        raise InputError("there are no runs to compare")
    unit = at or ("steps" if steps is not None else "epochs" if epochs is not None else None)
    limit = steps if unit == "steps" else epochs
    if unit and limit is None:
        column = unit.removesuffix("s")
        ends = [run.history[column].max() for run in runs if _has_history(run)]
        limit = min(ends, default=None)
    arms = {}
    for run in runs:
        arms.setdefault((run.name, run.recorded), []).append(run)
    rows = [_row(name, recorded, arm, unit, limit) for (name, recorded), arm in arms.items()]
    verdicts = _verdicts(rows)
    for row, verdict in zip(rows, verdicts, strict=True):
        row |= {"ratio": _ratio(row, rows[0]), "verdict": verdict, "note": _marked(row, rows[0])}
    table = Comparison(rows, columns=COLUMNS)
    table.attrs["title"] = f"at {limit:g} {unit}" if unit and limit is not None else "at the end"
    return table


# Shown in every table, whether or not the rows differ in it.
MEASURED = ("held-out accuracy, %", "against the best", "training accuracy, %", "images/s")

COLUMNS = [
    "arm",
    "ranks",
    "threads",
    "precision",
    "global_batch",
    "learning_rate",
    "steps",
    "epochs",
    "samples",
    "test_accuracy",
    "test_accuracy_sd",
    "seeds",
    "verdict",
    "train_accuracy",
    "images_per_s",
    "ratio",
    "train_seconds",
    "data",
    "hardware",
    "recorded",
    "note",
]


def _has_history(run):
    return run.result is not None and len(run.history) > 0


def _row(name, recorded, arm, unit, limit):
    finished = [run for run in arm if run.result is not None]
    results = [run.result for run in finished]
    points = [point for run in finished if (point := _point(run, unit, limit)) is not None]
    accuracies = [p["test_accuracy"] for p in points if is_number(p["test_accuracy"])]
    return {
        "arm": f"{name} (recorded)" if recorded else name,
        "ranks": _same(_of_job(run, "ranks", "workers") for run in arm),
        "threads": _same(_of_job(run, "threads_per_rank", "threads") for run in arm),
        # Results that do not say it are from before there was a choice.
        "precision": _same(result.get("precision", "float32") for result in results),
        "global_batch": _same(result.get("global_batch") for result in results),
        "learning_rate": _same(result.get("learning_rate") for result in results),
        "steps": _same(int(point["step"]) for point in points),
        "epochs": _same(round(point["epoch"], 2) for point in points),
        "samples": _same(int(point["samples"]) for point in points),
        "test_accuracy": _mean(accuracies),
        "test_accuracy_sd": statistics.stdev(accuracies) if len(accuracies) > 1 else math.nan,
        "seeds": len(accuracies),
        "train_accuracy": _mean(point["accuracy"] for point in points),
        "images_per_s": _mean(result.get("images_per_s") for result in results),
        "train_seconds": _mean(point["seconds"] for point in points),
        "data": _same(data_label(result.get("data")) for result in results),
        "hardware": _same(_hardware(result) for result in results),
        "recorded": recorded,
        "note": _note(arm, results, len(points)),
    }


def _point(run, unit, limit):
    """Return the evaluation to compare: the end of the run, or the last one within the limit."""
    if unit is None:
        result = run.result
        keys = {"step": "steps", "epoch": "epochs", "seconds": "train_seconds"}
        names = ("step", "epoch", "samples", "seconds", "accuracy", "test_accuracy")
        point = {name: result.get(keys.get(name, name)) for name in names}
        return point if point["step"] is not None else None
    history = run.history
    if len(history) == 0 or limit is None:
        return None
    # Epochs are floats that went through a division and JSON.
    within = history[history[unit.removesuffix("s")] <= limit * (1 + 1e-9)]
    return within.iloc[-1].to_dict() if len(within) else None


def _of_job(run, key, asked):
    """Return a fact from the result or, for a run without one, from the job."""
    return run.result.get(key) if run.result is not None else run.job.get(asked)


def _note(arm, results, points):
    notes = []
    lost = [run for run in arm if run.result is None]
    if lost:
        states = sorted({run.state for run in lost})
        notes.append(f"{len(lost)} of {len(arm)} {' or '.join(states)}, without a result")
    diverged = sum(bool(result.get("diverged")) for result in results)
    if diverged:
        notes.append(f"{diverged} of {len(arm)} diverged")
    if points < len(results):
        notes.append(f"{len(results) - points} of {len(arm)} without an evaluation that early")
    return "; ".join(notes)


def _marked(row, first):
    """Return the row's note, with a mark where it computes in another precision than the first."""
    if None in (row["precision"], first["precision"]) or row["precision"] == first["precision"]:
        return row["note"]
    return "; ".join(filter(None, (row["note"], f"in {row['precision']}, the first row in {first['precision']}")))


def _verdicts(rows):
    verdicts = []
    for row in rows:
        peers = [
            peer
            for peer in rows
            if all(peer[key] == row[key] for key in ("data", "recorded")) and is_number(peer["test_accuracy"])
        ]
        best = max(peers, key=lambda r: r["test_accuracy"], default=None)
        if not is_number(row["test_accuracy"]) or len(peers) < 2:
            verdicts.append("")
            continue
        gap = best["test_accuracy"] - row["test_accuracy"]
        spread = math.sqrt((best["test_accuracy_sd"] ** 2 + row["test_accuracy_sd"] ** 2) / 2)
        if row is best:
            verdicts.append("best")
        elif math.isnan(spread):
            verdicts.append(f"−{100 * gap:.1f}, one seed")
        else:
            verdicts.append("no difference" if gap <= spread else f"−{100 * gap:.1f}")
    return verdicts


def _ratio(row, first):
    keys = ("ranks", "threads", "hardware")
    if any(row[key] != first[key] or row[key] is None for key in keys):
        return math.nan
    return row["images_per_s"] / first["images_per_s"] if first["images_per_s"] else math.nan


def _hardware(result):
    hardware = result.get("hardware") or {}
    gpus = hardware.get("gpus") or []
    if gpus:
        return f"{len(gpus)} × {gpus[0]}"
    return f"{hardware['cores']} cores, {hardware['cpu']}" if "cpu" in hardware else None


def _same(values):
    """Return the value that all share, or all values: an arm that is not one arm must show it."""
    different = list(dict.fromkeys(value for value in values if value is not None))
    if len(different) > 1:
        return " / ".join(f"{v:g}" if is_number(v) else str(v) for v in different)
    return different[0] if different else None


def _mean(values):
    values = [value for value in values if is_number(value)]
    return statistics.fmean(values) if values else math.nan


class Comparison(Shown):
    """The table of `compare`, with spreads."""

    def readable(self):
        """Return the table as text cells, as it is shown.

        What is the same in all rows, or absent from all, is left to the caption, so that the table fits beside a
        reader's file browser.
        """
        cells = self._cells()
        return cells[[name for name in cells if name not in self._common(cells)]]

    def _cells(self):
        return pandas.DataFrame([_readable(row) for row in self.to_dict("records")])

    @staticmethod
    def _common(cells):
        if len(cells) == 1:
            candidates = ["data", "hardware"]
        else:
            candidates = [name for name in cells if name not in ("arm", *MEASURED)]
        known = {name: set(cells[name]) - {"–"} for name in candidates}
        return {name: next(iter(texts), "–") for name, texts in known.items() if len(texts) < 2}

    def _repr_html_(self):
        return super()._repr_html_().replace("<td>best</td>", "<td><b>★ best</b></td>")

    def _caption(self):
        common = self._common(self._cells()).items()
        same = "; ".join(f"{name}: {text}" for name, text in common if text != "–")
        return " ".join(
            (
                *([f"In all rows, {same}."] if same else []),
                f"Compared {self.attrs.get('title', 'at the end')}.",
                "Mean ± standard deviation over n seeds; against the best, in",
                "points; “no difference”: the means are no further apart than the pooled standard",
                "deviation. Ratio: images/s over the first row's,",
                "on the same hardware only.",
            )
        )


def _readable(row):
    sd = f"\u00a0±\u00a0{100 * row['test_accuracy_sd']:.1f}" if row["test_accuracy_sd"] >= 0 else ""
    return {
        "arm": row["arm"] + (f" ({row['note']})" if row["note"] else ""),
        "ranks × threads": f"{cell(row['ranks'])} × {cell(row['threads'])}",
        "precision": cell(row["precision"]),
        "global batch": cell(row["global_batch"], ",.0f"),
        "learning rate": cell(row["learning_rate"], ".4g"),
        "steps": cell(row["steps"], ",.0f"),
        "epochs": cell(row["epochs"], ".4g"),
        "samples": cell(row["samples"], ",.0f"),
        "held-out accuracy, %": _percent(row["test_accuracy"]) + f"{sd}\u00a0(n={row['seeds']})",
        "against the best": row["verdict"],
        "training accuracy, %": _percent(row["train_accuracy"]),
        "images/s": cell(row["images_per_s"], ",.0f"),
        "ratio": cell(row["ratio"], ".2f"),
        "train, s": cell(row["train_seconds"], ",.1f"),
        "data": cell(row["data"]),
        "hardware": cell(row["hardware"]),
    }


def _percent(value):
    return f"{100 * value:.1f}" if is_number(value) else "–"
