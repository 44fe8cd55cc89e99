"""Table that compares runs of `train_text.py`."""

import math

import numpy as np

from ddl.display.style import data_label
from ddl.display.table import Table, cell
from ddl.errors import InputError


def report(runs) -> Table:
    """Tabulate runs of ``train_text.py``, with a row per arm; runs with the same name are its seeds.

    ``accuracy``, ``majority``, ``precision``, ``recall`` and ``f1`` are means over the seeds' test parts at a threshold
    of one half, ``f1_tuned`` at the threshold that is best on the validation part; ``f1_sd`` is a sample standard
    deviation, NaN for one seed.
    """
    arms = {}
    for run in runs:
        if run.result is not None and "test" in run.result:
            arms.setdefault(run.name, []).append(run.result)
    if not arms:
        raise InputError("none of these is a finished run of train_text.py")
    rows = [_row(name, results) for name, results in arms.items()]
    seeds = " F1: mean ± standard deviation over the seeds." if any(row["seeds"] > 1 for row in rows) else ""
    caption = (
        f"Data: {' and '.join(dict.fromkeys(row['data'] for row in rows))}; figures of the test part. "
        "Majority: the accuracy of always giving the more frequent answer. Tuned: at the "
        f"threshold that is best on the validation part.{seeds}"
    )
    return Table.of(rows, caption)


def _row(name, results):
    def mean(read):
        values = [value for result in results if (value := read(result)) is not None]
        return float(np.mean(values)) if values else math.nan

    def share(key):
        value = mean(lambda result: result["test"][key])
        return value, f"{key}, %", lambda row: cell(100 * row[key], ".1f")

    scores = [result["test"]["f1"] for result in results]
    first = results[0]
    return {
        "arm": (name, "arm", lambda row: f"{row['arm']} (n={row['seeds']})"),
        "strategy": first["strategy"],
        "processes": (first["ranks"], "processes × threads", lambda row: f"{row['processes']} × {row['threads']}"),
        "replicas": (first["replicas"], "replicas", "d"),
        "threads": first["threads_per_rank"],
        "seeds": len(results),
        **{key: share(key) for key in ("accuracy", "majority", "precision", "recall")},
        "f1": (mean(lambda result: result["test"]["f1"]), "F1", _f1),
        "f1_sd": float(np.std(scores, ddof=1)) if len(scores) > 1 else math.nan,
        "f1_tuned": (mean(lambda result: result["tuned"]["f1"]), "F1 tuned", ".3f"),
        "epochs": (mean(lambda result: result["epochs"]), "epochs", ".4g"),
        "questions_per_s": (mean(lambda result: result["images_per_s"]), "questions/s", ",.0f"),
        "train_seconds": (mean(lambda result: result["train_seconds"]), "train, s", ".1f"),
        "first_step_s": (mean(lambda result: result["time_to_first_step_s"]), "first step, s", ".1f"),
        "embedding": first["embedding"],
        "data": data_label(first["data"]),
    }


def _f1(row):
    return f"{row['f1']:.3f}" + ("" if math.isnan(row["f1_sd"]) else f" ± {row['f1_sd']:.3f}")
