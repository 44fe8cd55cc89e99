"""The board: all scored files, with the recorded baseline and reference."""

import itertools
import math
from collections.abc import Iterable

from course.challenge.images import choose
from course.challenge.rules import TARGETS
from course.challenge.scoring import scores
from course.challenge.verdict import Score
from ddl.display.table import Table
from ddl.records.jsonfiles import read_json_lines
from ddl.records.paths import reference_dir

LABELS = {
    "name": ("submission", ""),
    "place": ("place", ".0f"),
    "ratio": ("processor time ÷ baseline's", ".2f"),
    "span": ("lowest to highest", ""),
    "samples": ("samples", ",.0f"),
    "mean": ("private accuracy", ".2%"),
    "half_width": ("± 95 %", ".2%"),
    "n": ("runs", ".0f"),
    "p": ("p", ".2g"),
    "counts": ("counts", ""),
}


def board(data_set: str = "auto", mine: Iterable[Score] | None = None) -> Table:
    """Return a board of scores, by default this machine's, with the recorded baseline and reference.

    Those that count come first, the fastest before the others.
    """
    data, places = choose(data_set), itertools.count(1)
    own = [score for score in (scores() if mine is None else mine) if score.data == data and not score.trial]
    known = [(score, "own") for score in own] + [(score, score.name) for score in recorded(data)]
    known.sort(key=lambda pair: (not pair[0].counts, math.isnan(pair[0].ratio), pair[0].ratio, pair[0].name))
    rows = []
    for score, kind in known:
        found = {name: getattr(score, name, None) for name in LABELS}
        found |= {"place": next(places) if score.counts else None, "counts": "yes" if score.counts else "no"}
        rows.append({name: (found[name], *LABELS[name]) for name in LABELS} | {"kind": kind})
    table = Table.of(rows, f"Images: {data}. Target: {TARGETS[data]:.1%} of the private ones.")
    table.attrs |= {"target": TARGETS[data], "data": data}
    return table


def recorded(data: str) -> list[Score]:
    """Return the scores of the baseline and the reference, from runs in ``results/reference``."""
    needs = {"configuration": str, "samples": int, "seed": int, "private_accuracy": float, "cpu_seconds": float}
    path = reference_dir() / f"challenge-{'times' if data == 'cifar10' else 'generated'}.jsonl"
    lines = read_json_lines(path, needs)
    beside = {line["seed"]: line["cpu_seconds"] for line in lines if line["configuration"] == "baseline"}
    found = []
    for configuration in ("baseline", "reference"):
        mine = [line for line in lines if line["configuration"] == configuration]
        reached = tuple(line["private_accuracy"] for line in mine)
        ratios = tuple(line["cpu_seconds"] / beside[line["seed"]] for line in mine)
        found += [Score(configuration, reached, mine[0]["samples"], ratios, data=data)] if mine else []
    return found
