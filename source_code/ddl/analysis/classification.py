"""Runs of `train_text.py` beside each other, in one table."""

import math

import numpy as np
import pandas

from ddl.display.table import Shown
from ddl.errors import InputError


def report(runs) -> "ScoreTable":
    """Tabulate runs of ``train_text.py``, a row an arm; runs of one name are its seeds.

    ``accuracy``, ``majority``, ``precision``, ``recall`` and ``f1`` are means over the seeds' test parts at a threshold
    of one half, ``f1_tuned`` at the threshold that is best on the validation part; ``f1_sd`` is a sample standard
    deviation, NaN for one seed.

    Raises InputError if there are no such runs.
    """
    arms = {}
    for run in runs:
        if run.result is not None and "test" in run.result:
            arms.setdefault(run.name, []).append(run.result)
    if not arms:
        raise InputError("none of these is a finished run of train_text.py")
    return ScoreTable([_row(name, results) for name, results in arms.items()])


def _row(name, results):
    def mean(read):
        values = [value for result in results if (value := read(result)) is not None]
        return float(np.mean(values)) if values else math.nan

    scores = [result["test"]["f1"] for result in results]
    first = results[0]
    return {
        "arm": name,
        "strategy": first["strategy"],
        "processes": first["ranks"],
        "replicas": first["replicas"],
        "threads": first["threads_per_rank"],
        "seeds": len(results),
        "epochs": mean(lambda result: result["epochs"]),
        **{
            key: mean(lambda result, key=key: result["test"][key])
            for key in ("accuracy", "majority", "precision", "recall", "f1")
        },
        "f1_sd": float(np.std(scores, ddof=1)) if len(scores) > 1 else math.nan,
        "f1_tuned": mean(lambda result: result["tuned"]["f1"]),
        "questions_per_s": mean(lambda result: result["images_per_s"]),
        "train_seconds": mean(lambda result: result["train_seconds"]),
        "first_step_s": mean(lambda result: result["time_to_first_step_s"]),
        "embedding": first["embedding"],
        "data": data_of(first),
    }


def data_of(result):
    """Name the data of a run: ``questions (generated), 16,000 to train on``."""
    data = result["data"]
    return f"{data['name']} ({data['form']}), {data['train_samples']:,} to train on"


class ScoreTable(Shown):
    """The table of `report`."""

    def readable(self):
        return pandas.DataFrame([_readable(row) for row in self.to_dict("records")])

    def _caption(self):
        seeds = " F1: mean ± standard deviation over the seeds." if self["seeds"].max() > 1 else ""
        return (
            f"Data: {' and '.join(dict.fromkeys(self['data']))}; figures of the test part. "
            "Majority: the accuracy of saying always the more frequent. Tuned: at the "
            f"threshold that is best on the validation part.{seeds}"
        )


def _readable(row):
    spread = "" if math.isnan(row["f1_sd"]) else f" ± {row['f1_sd']:.3f}"
    return {
        "arm": f"{row['arm']} (n={row['seeds']})",
        "processes × threads": f"{row['processes']} × {row['threads']}",
        "replicas": str(row["replicas"]),
        "accuracy, %": _cell(100 * row["accuracy"], ".1f"),
        "majority, %": _cell(100 * row["majority"], ".1f"),
        "precision, %": _cell(100 * row["precision"], ".1f"),
        "recall, %": _cell(100 * row["recall"], ".1f"),
        "F1": _cell(row["f1"], ".3f") + spread,
        "F1 tuned": _cell(row["f1_tuned"], ".3f"),
        "epochs": _cell(row["epochs"], ".4g"),
        "questions/s": _cell(row["questions_per_s"], ",.0f"),
        "train, s": _cell(row["train_seconds"], ".1f"),
        "first step, s": _cell(row["first_step_s"], ".1f"),
    }


def _cell(value, form):
    return "–" if math.isnan(value) else format(value, form)
