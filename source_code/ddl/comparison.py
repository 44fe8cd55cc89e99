"""Comparison tables of runs, with one row per configuration."""

import math
import statistics

from ddl.display.style import data_label, hardware_label
from ddl.display.table import Table, cell, is_number
from ddl.errors import InputError
from ddl.paired_stats import holm, means, paired
from ddl.records.stack import release
from ddl.text import plural

FEW = 3  # up to this many comparisons, p-values are not corrected

OF_RESULTS = {"ranks", "threads_per_rank", "steps", "seed"}  # numbers of a result that are not figures

# Shown if any row has a value, even if all rows have the same.
MEASURED = ("held-out accuracy, %", "training accuracy, %", "images/s")


def compare(runs, against=None, margin=1.0) -> Table:
    """Return a table of runs one row a configuration; runs with the same name are seeds of one configuration.

    Recorded runs, and runs evaluated on validation images, have separate rows. A run without a result (failed or
    stopped) is counted in its row's note, which also reports the cost of restarts.

    Each configuration's held-out accuracy is compared with that of `against` or, by default, with the one with the
    highest mean. Recorded configurations, other data and other held-out images are compared among themselves.
    ``difference_points`` is the mean difference over the `pairs` of equal seeds, with the 95 % interval ``low_points``
    to ``high_points`` (NaN below two pairs); without pairs, it is the difference of the means. ``p_holm`` is the
    p-value of Student's t test for no difference, corrected by Holm's method; NaN for at most three comparisons. With
    `against`, ``verdict`` is `Paired.verdict` for a `margin` in points; otherwise the configuration with the highest
    mean is "best".

    Accuracies are fractions; ``test_accuracy_sd`` is the sample standard deviation over the `seeds`, NaN for one.
    ``train_accuracy_of`` is "clean" if all runs of a configuration measured accuracy on training images without
    augmentation, otherwise "running mean" over batches. ``ratio`` is throughput relative to the first configuration,
    NaN if hardware or ranks × threads differ. ``note`` marks rows whose ``precision`` or ``tensorflow`` differs from
    the first row's.

    If no run has a held-out accuracy, there is a row for each run instead: its duration, the arguments in which the
    runs differ, and the last value of each number that its script has recorded.

    Raises InputError for an empty list of runs, or if no configuration has the name `against`.
    """
    runs = list(runs)
    if not runs:
        raise InputError("at least one run is needed")
    if against is None and not any(_has_accuracy(run) for run in runs) and not any(run.recorded for run in runs):
        return _by_figures(runs)
    configurations = _by_configuration(runs)
    names = list(dict.fromkeys(name for name, *_ in configurations))
    if against is not None and against not in names:
        raise InputError(
            f"against must be one of the configurations, got {against!r}; the configurations are: {', '.join(names)}"
        )
    points = {key: _points(configuration) for key, configuration in configurations.items()}
    mixed = len({recorded for _, recorded, _ in configurations}) > 1
    rows = {key: _row(*key[:2], mixed, configuration, points[key]) for key, configuration in configurations.items()}
    first = next(iter(rows.values()))
    pairs = {}
    for key, row in rows.items():
        row["ratio"] = _ratio(row, first)
        row["note"] = _marked(row, first)
        other = _opponent(key, rows, against)
        pairs[key] = _judge(row, rows.get(other), points[key], points.get(other), None if against is None else margin)
    compared = [key for key, pair in pairs.items() if pair and pair.n > 1]
    if len(compared) > FEW:
        for key, p in zip(compared, holm([pairs[key].p for key in compared]), strict=True):
            rows[key]["p_holm"] = p
    title = _title([point for seeds in points.values() for _, point in seeds])
    table = _table(rows.values(), title, against, margin)
    table.attrs.update(title=title, differences=[pair.differences if pair else () for pair in pairs.values()])
    return table


def _has_accuracy(run):
    return run.result is not None and is_number(run.result.get("test_accuracy"))


def _by_figures(runs):
    """Return the table of runs of other scripts than the course's: what they were given, and what they recorded."""
    given = [_arguments(run.job.get("args", ())) for run in runs]
    named = dict.fromkeys(name for each in given for name in each)
    differing = [name for name in named if len({each.get(name) for each in given}) > 1]
    rows = []
    for run, arguments in zip(runs, given, strict=True):
        progress = run.progress()
        recorded = {**progress.own, **{name: value for name, value in (run.result or {}).items() if is_number(value)}}
        figures = {"loss": progress.loss} if is_number(progress.loss) else {}
        row = {"run": (run.name, "run", ""), "id": (run.id, "id", ""), "state": (progress.state, "state", "")}
        row |= {f"argument {name}": (arguments.get(name, "–"), name, "") for name in differing}
        row |= {
            "ranks": (run.job.get("workers"), "workers", "d"),
            "duration_s": (progress.elapsed_s, "duration, s", ",.1f"),
            "steps": (progress.step or math.nan, "steps", ",.0f"),
        }
        rows.append((row, {name: value for name, value in (figures | recorded).items() if name not in OF_RESULTS}))
    names = list(dict.fromkeys(name for _, figures in rows for name in figures))
    return Table.of(
        [row | {name: (figures.get(name, math.nan), name, ".4g") for name in names} for row, figures in rows],
        "The last value of each number that a script has recorded; arguments in which the runs differ.",
    )


def _arguments(words):
    """Return arguments by name, those without one by their place: {"--lr": "0.1", "--fast": "yes", "1": "train"}."""
    found, open_name = {}, ""
    for place, word in enumerate(words, start=1):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found[name] = value if equals else "yes"
            open_name = "" if equals else name
        else:
            found[open_name or str(place)] = word
            open_name = ""
    return found


def _by_configuration(runs):
    """Group runs by name, whether they are recorded, and held-out images, in order of appearance."""
    known = {(run.name, run.recorded): _held_out(run.result) for run in reversed(runs) if run.result is not None}
    configurations = {}
    for run in runs:
        # A run without a result joins a configuration of its name.
        held_out = known.get((run.name, run.recorded)) if run.result is None else _held_out(run.result)
        configurations.setdefault((run.name, run.recorded, held_out), []).append(run)
    return configurations


def _points(configuration):
    """Return (seed, final evaluation) of each run in a configuration that has one."""
    keys = {"step": "steps", "epoch": "epochs", "seconds": "train_seconds"}
    names = ("step", "epoch", "samples", "seconds", "accuracy", "clean_accuracy", "test_accuracy")
    results = [run.result for run in configuration if run.result is not None and run.result.get("steps") is not None]
    return [(result.get("seed"), {name: result.get(keys.get(name, name)) for name in names}) for result in results]


def _row(name, recorded, mixed, configuration, seeds):
    results = [run.result for run in configuration if run.result is not None]
    points = [point for _, point in seeds]
    accuracies = [p["test_accuracy"] for p in points if is_number(p["test_accuracy"])]
    return {
        "configuration": f"{name} (recorded)" if recorded and mixed else name,
        "ranks": _same(_of_job(run, "ranks", "workers") for run in configuration),
        "threads": _same(_of_job(run, "threads_per_rank", "threads") for run in configuration),
        "precision": _same(result.get("precision") for result in results),
        "tensorflow": _same(_tensorflow(result) for result in results),
        "global_batch": _same(result.get("global_batch") for result in results),
        "learning_rate": _same(result.get("learning_rate") for result in results),
        "steps": _same(int(point["step"]) for point in points),
        "epochs": _same(round(point["epoch"], 2) for point in points),
        "samples": _same(int(point["samples"]) for point in points),
        "held_out": _same(_held_out(result) for result in results),
        "test_accuracy": _mean(accuracies),
        "test_accuracy_sd": statistics.stdev(accuracies) if len(accuracies) > 1 else math.nan,
        "seeds": len(accuracies),
        **dict.fromkeys(("difference_points", "low_points", "high_points"), math.nan),
        "pairs": 0,
        "verdict": "",
        "p_holm": math.nan,
        **_training(points),
        "images_per_s": _mean(result.get("images_per_s") for result in results),
        "ratio": math.nan,
        "train_seconds": _mean(point.get("seconds") for point in points),
        "data": _same(data_label(result.get("data")) for result in results),
        "hardware": _same(hardware_label(result.get("hardware")) for result in results),
        "recorded": recorded,
        "note": _note(configuration, results),
    }


def _of_job(run, key, asked):
    """Return a value from the result or, for a run without one, from its job."""
    return run.result.get(key) if run.result is not None else run.job.get(asked)


def _note(configuration, results):
    notes = []
    lost = [run for run in configuration if run.result is None]
    if lost:
        states = sorted({run.state for run in lost})
        notes.append(f"{len(lost)} of {len(configuration)} {' or '.join(states)}, without a result")
    diverged = sum(bool(result.get("diverged")) for result in results)
    if diverged:
        notes.append(f"{diverged} of {len(configuration)} diverged")
    if restarts := [restart for run in configuration if not run.recorded for restart in run.restarts]:
        repeated, lost_s = (sum(getattr(each, name) or 0 for each in restarts) for name in ("repeated", "lost_s"))
        times = plural(len(restarts), "time")
        notes.append(f"restarted {times}: {plural(repeated, 'step')} repeated, {lost_s:.1f} s lost")
    return "; ".join(notes)


def _marked(row, first):
    """Return the row's note, plus a mark if its precision or TensorFlow differs from the first row's."""
    notes = [row["note"]]
    for key, where in (("precision", "in "), ("tensorflow", "with TensorFlow ")):
        if None not in (row[key], first[key]) and row[key] != first[key]:
            notes.append(f"{where}{row[key]}, the first row {where.split()[0]} {first[key]}")
    return "; ".join(filter(None, notes))


def _tensorflow(result):
    """Return the major and minor version of a result's TensorFlow."""
    numbers = release((result.get("versions") or {}).get("tensorflow"))
    return numbers and "{}.{}".format(*numbers)


def _training(points):
    clean = [point.get("clean_accuracy") for point in points]
    if points and all(map(is_number, clean)):
        return {"train_accuracy": _mean(clean), "train_accuracy_of": "clean"}
    return {"train_accuracy": _mean(point["accuracy"] for point in points), "train_accuracy_of": "running mean"}


def _held_out(result):
    return result.get("held_out") or (result.get("data") or {}).get("held_out") or "test"


def _opponent(key, rows, against):
    """Return the key of the row to compare with, or None."""
    row = rows[key]
    peers = {
        name: peer
        for name, peer in rows.items()
        if all(peer[fact] == row[fact] for fact in ("data", "recorded", "held_out"))
        and is_number(peer["test_accuracy"])
    }
    if key not in peers or len(peers) < 2:
        return None
    if against is not None:
        return next((name for name in peers if name[0] == against), None)
    return max(peers, key=lambda name: peers[name]["test_accuracy"])


def _judge(row, other, seeds, other_seeds, margin):
    """Add the difference to another row and, with a margin, the verdict; return the pairs, if any."""
    if other is None:
        return None
    if other is row:
        row["verdict"] = "best" if margin is None else ""
        return None
    first, second = (
        means((seed, point["test_accuracy"]) for seed, point in configuration) for configuration in (other_seeds, seeds)
    )
    if not first.keys() & second.keys():
        row["difference_points"] = 100 * (row["test_accuracy"] - other["test_accuracy"])
        row["verdict"] = "" if margin is None else "not decided"
        return None
    pairs = paired(
        *({seed: 100 * accuracy for seed, accuracy in configuration.items()} for configuration in (first, second))
    )
    verdict = "" if margin is None else pairs.verdict(margin)
    row.update(difference_points=pairs.mean, low_points=pairs.low, high_points=pairs.high, pairs=pairs.n)
    row["verdict"] = verdict
    return pairs


def _title(points):
    """Say that runs are compared at the end, and whether all have seen the same number of samples by then."""
    samples = {int(point["samples"]) for point in points if is_number(point["samples"])}
    if len(points) < 2 or not samples:
        return "at the end"
    if len(samples) == 1:
        return f"at the end, after equally many samples ({samples.pop():,})"
    return f"at the end, after different numbers of samples ({min(samples):,} to {max(samples):,})"


def _ratio(row, first):
    keys = ("ranks", "threads", "hardware")
    if any(row[key] != first[key] or row[key] is None for key in keys):
        return math.nan
    return row["images_per_s"] / first["images_per_s"] if first["images_per_s"] else math.nan


def _same(values):
    """Return the value that all share; if values differ, all of them, so that a mixed configuration is visible."""
    different = list(dict.fromkeys(value for value in values if value is not None))
    if len(different) > 1:
        return " / ".join(f"{v:g}" if is_number(v) else str(v) for v in different)
    return different[0] if different else None


def _mean(values):
    values = [value for value in values if is_number(value)]
    return statistics.fmean(values) if values else math.nan


# ---------------------------------------------------------------- display


def _table(rows, title, against, margin):
    """Return the table; a column with the same value in all rows moves to the caption, an empty one is left out."""
    against_name = against or "the best"
    kinds = {row["train_accuracy_of"] for row in rows if is_number(row["train_accuracy"])}
    labels = _labels(against_name, len(kinds) > 1)
    cells = [{name: (value, *labels[name]) if name in labels else value for name, value in row.items()} for row in rows]
    table = Table.of(cells, "")
    cells = table.readable()
    if len(rows) == 1:
        candidates = ["data", "hardware"]
    else:
        ever_shown = ("configuration", f"against {against_name}", *MEASURED)
        candidates = [name for name in cells if name not in ever_shown]
    texts = {name: set(cells[name]) - {"–"} for name in candidates}
    texts |= {name: set() for name in MEASURED if set(cells[name]) == {"–"}}
    common = {name: next(iter(found), "–") for name, found in texts.items() if len(found) < 2}
    same = "; ".join(f"{name}: {text}" for name, text in common.items() if text != "–")
    recorded = all(row["recorded"] for row in rows)
    caption = [f"In all rows, {same}."] if same else []
    caption.append(
        f"{'Recorded runs, compared' if recorded else 'Compared'} {title}. Mean ± standard deviation over n seeds. "
        f"Against {against_name}, in points: mean difference over shared seeds ± half its 95 % interval (Student's t)."
    )
    if against is not None:
        caption.append(
            f"“Within the margin”: the interval lies within ±{margin:g}; “better”, “worse”: on one side of zero."
        )
    if common.get("p") != "–":
        caption.append("p: if the true difference is 0; corrected for the number of rows (Holm).")
    if common.get("ratio") != "–":
        caption.append("Ratio: images/s relative to the first row, on the same hardware only.")
    measured = {"clean": "on images without augmentation", "running mean": "the running mean over training batches"}
    if kinds:
        caption.append(f"Training accuracy: {'; *: '.join(measured[kind] for kind in sorted(kinds))}.")
    shown = {column: label for column, label in labels.items() if label[0] not in common}
    table.attrs.update(labels=shown, caption=" ".join(caption))
    return table


def _labels(against_name, mixed):
    """Return the label and format of each visible column; `mixed` means two kinds of training accuracy."""

    def training_accuracy(row):
        return _percent(row["train_accuracy"]) + "*" * (mixed and row["train_accuracy_of"] == "running mean")

    return {
        "configuration": (
            "configuration",
            lambda row: row["configuration"] + (f" ({row['note']})" if row["note"] else ""),
        ),
        "ranks": ("ranks × threads", lambda row: f"{cell(row['ranks'])} × {cell(row['threads'])}"),
        "precision": ("precision", "s"),
        "tensorflow": ("TensorFlow", "s"),
        "global_batch": ("global batch", ",.0f"),
        "learning_rate": ("learning rate", ".4g"),
        "steps": ("steps", ",.0f"),
        "epochs": ("epochs", ".4g"),
        "samples": ("samples", ",.0f"),
        "held_out": ("held out", "s"),
        "test_accuracy": ("held-out accuracy, %", _held_out_accuracy),
        "difference_points": (f"against {against_name}", _difference),
        "p_holm": ("p", _p),
        "train_accuracy": ("training accuracy, %", training_accuracy),
        "images_per_s": ("images/s", ",.0f"),
        "ratio": ("ratio", ".2f"),
        "train_seconds": ("train, s", ",.1f"),
        "data": ("data", "s"),
        "hardware": ("hardware", "s"),
    }


def _held_out_accuracy(row):
    sd = f"\u00a0±\u00a0{100 * row['test_accuracy_sd']:.1f}" if row["test_accuracy_sd"] >= 0 else ""
    return f"{_percent(row['test_accuracy'])}{sd}\u00a0(n={row['seeds']})"


def signed(points):
    """Return points with a sign, but never −0.0."""
    return f"{round(points, 1) + 0.0:+.1f}".replace("-", "−")


def _difference(row):
    if not is_number(row["difference_points"]):
        return "★ best" if row["verdict"] == "best" else row["verdict"]
    text = signed(row["difference_points"])
    if row["pairs"] > 1:
        text += f"\u00a0±\u00a0{row['high_points'] - row['difference_points']:.1f}"
        text += f"\u00a0(n={row['pairs']})" if row["pairs"] != row["seeds"] else ""
    else:
        text += ", one seed" if row["pairs"] else ", no seed in common"
    return text + (f", {row['verdict']}" if row["verdict"] else "")


def _p(row):
    if math.isnan(row["p_holm"]):
        return "–"
    return "< 0.001" if row["p_holm"] < 0.001 else f"{row['p_holm']:.3f}"


def _percent(value):
    return f"{100 * value:.1f}" if is_number(value) else "–"
