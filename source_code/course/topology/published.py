"""Published scaling compared with predictions that include a fitted wait for the slowest rank.

The computation c of each of N ranks varies by a standard deviation of s c, so that the slowest is late by e(N) s c on
average (`prediction.expected_maximum`). For one publisher's figures, s is fitted to those of the other publishers.
Figures of further publishers were recorded after the fit, to test it: `held_out`.
"""

import tomllib
from dataclasses import dataclass, replace
from functools import cache

import numpy

from course.shared import cost
from course.topology.clusters import FUSION_BYTES_BEFORE, LATENCY_S, SHARE, Server, cluster, known, server
from course.topology.prediction import BYTES, REFERENCE, Prediction, expected_maximum
from ddl.display.table import Table

OF_FIVE = 4  # of five figures not used in the fit, this many lie within the margin
LATES = numpy.arange(0, 400) / 2000
ALWAYS = 90.0  # percent: a constant guess
PARTS = {"half": "half precision", "strong": "strong scaling"}  # groups of figures with separate scores


@dataclass(frozen=True)
class Point:
    """A published figure with its predicted step and baseline, without lateness."""

    source: str
    publisher: str
    network: str  # title
    through: str  # empty, "TCP" or "parameter server"
    percent: float  # scaling efficiency
    step: Prediction
    baseline: Prediction
    half: bool  # half precision
    strong: bool  # strong scaling: the global batch is fixed

    def predicted(self, late: float) -> Prediction:
        """Return the step with late ranks, relative to a baseline with late ranks."""
        return replace(_waiting(self.step, late), baseline=_waiting(self.baseline, late))


def _seconds(step):
    """Return a rank's seconds per sample without lateness, and the increase for a lateness of 1."""
    each = step.batch / step.ranks
    return step.seconds / each, expected_maximum(step.ranks) * step.computation_s / each


def _waiting(step, late):
    waiting_s = late * expected_maximum(step.ranks) * step.computation_s
    return replace(step, computation_s=step.computation_s + waiting_s, waiting_s=waiting_s)


@cache
def figures() -> tuple[Point, ...]:
    recorded = _recorded()
    return tuple(_point(point, recorded) for point in recorded["point"])


@cache
def _recorded(name="published-scaling"):
    return tomllib.loads((REFERENCE / f"{name}.toml").read_text())


def _point(point, recorded):
    model = recorded["model"].get(point["model"]) or known(point["model"])
    options = {
        "topology": _server(point["topology"], point.get("network"), recorded["server"]),
        "parameters": model["parameters"],
        "images_per_s": float(numpy.median(point["one"])),
        "algorithm": point.get("algorithm", "ring"),
        "all_reduces": point.get("all_reduces"),
        "gradient_bytes": point.get("gradient_bits", 8 * BYTES) // 8,
        "fusion_bytes": FUSION_BYTES_BEFORE,
        "late": 0.0,
    }
    step = cluster(nodes=point["nodes"], batch=point["batch"], **options)
    baseline = cluster(nodes=1, batch=point.get("from_batch", point["batch"]), **options)
    if "from_gpus" not in point:
        baseline = replace(baseline, ranks=1, batch=baseline.batch // baseline.ranks, communication_s=0.0)
    percent = point.get("percent")
    if percent is None:
        shares = numpy.asarray(point["all"]) / numpy.asarray(point["one"]) / step.ranks
        percent = 100 * float(numpy.median(shares))
    source = recorded["source"][point["source"]]
    return Point(
        point["source"],
        source["publisher"],
        model["title"],
        point.get("through", ""),
        percent,
        step,
        baseline,
        half=point.get("precision") == "half",
        strong=point.get("scaling") == "strong",
    )


_known_server = cache(server)


def _server(name, network, machines):
    machine = machines.get(name)
    if machine is None:
        return _known_server(name, network)
    kind = "NVLink" if "nvlink_gb_per_s" in machine else "PCIe"
    gb_per_s = {kind: machine[f"{kind.lower()}_gb_per_s"], "network": machine["gbit_per_s"] / 8}
    inside, between = (cost.Link(LATENCY_S[kind], 1e-9 / (SHARE[kind] * gb_per_s[kind])) for kind in gb_per_s)
    return Server(name, machine["gpus"], machine["gpu"], inside, between)


def fitted(points=None) -> float:
    """Return the lateness in `LATES` with the least mean absolute error of the efficiency."""
    points = points or figures()
    punctual, late = numpy.transpose([_seconds(point.step) for point in points])
    punctual_0, late_0 = numpy.transpose([_seconds(point.baseline) for point in points])
    tried = LATES[:, None]
    errors = 100 * (punctual_0 + tried * late_0) / (punctual + tried * late) - [point.percent for point in points]
    return float(LATES[numpy.abs(errors).sum(axis=1).argmin()])


def _others(publisher, points):
    return [point for point in points if point.publisher != publisher]


def _left_out(points):
    """Return the lateness fitted to all publishers but one, by the one left out."""
    return {name: fitted(_others(name, points)) for name in dict.fromkeys(point.publisher for point in points)}


def _margin(points):
    late = _left_out(points)
    errors = [100 * point.predicted(late[point.publisher]).efficiency - point.percent for point in points]
    return float(numpy.quantile(numpy.abs(errors), OF_FIVE / 5, method="higher"))


def margin_points() -> float:
    """Return the margin in points that contains four of five held-out figures."""
    return _margin(figures())


def compared() -> Table:
    """Compare each published efficiency with its prediction from the other publishers' figures; in percent.

    ``error_points`` is predicted minus published. ``low_percent`` to ``high_percent`` is the interval that contains
    four of five of the other publishers' figures, cross-validated in the same way. ``punctual_percent`` is predicted
    without lateness. ``always_error_points`` is the error of a constant guess of 90 %, and ``mean_error_points`` the
    error of the other publishers' mean. ``half`` marks training in half precision, ``strong`` a fixed global batch.
    """
    points = figures()
    late = _left_out(points)
    margins = {name: _margin(_others(name, points)) for name in late}
    means = {name: float(numpy.mean([other.percent for other in _others(name, points)])) for name in late}
    rows = [_row(point, *(of[point.publisher] for of in (late, margins, means))) for point in points]
    return Table.of(
        rows,
        "Scaling efficiency. Each prediction was fitted only to the other publishers' figures. "
        f"Sources: {_sources(_recorded())}.",
    )


def held_out() -> Table:
    """Compare held-out publishers' figures with predictions fitted to all `figures`; columns as in `compared`."""
    recorded, known_points = _recorded("held-out-scaling"), figures()
    late, margin = fitted(known_points), _margin(known_points)
    mean = float(numpy.mean([point.percent for point in known_points]))
    rows = [_row(_point(point, recorded), late, margin, mean) for point in recorded["point"]]
    return Table.of(
        rows,
        "Scaling efficiency of publishers whose figures were recorded after the model was made, and not fitted. "
        f"Sources: {_sources(recorded)}.",
    )


def _row(point, late, margin, mean):
    predicted = 100 * point.predicted(late).efficiency
    low, high = predicted - margin, min(predicted + margin, 100.0)
    return {
        "publisher": point.publisher,
        "study": (point.source, "study", "s"),
        "network": (point.network, "network", "s"),
        "gpus": (point.step.ranks, "GPUs", "d"),
        "through": (point.through, "through", "s"),
        "published_percent": (point.percent, "published, %", ".0f"),
        "punctual_percent": (100 * point.predicted(0.0).efficiency, "if nobody is late, %", ".0f"),
        "predicted_percent": (predicted, "predicted, %", ".0f"),
        "low_percent": (low, "from, %", ".0f"),
        "high_percent": (high, "to, %", ".0f"),
        "inside": bool(low <= point.percent <= high),
        "error_points": (predicted - point.percent, "error, points", "+.0f"),
        "always_error_points": ALWAYS - point.percent,
        "mean_error_points": mean - point.percent,
        "half": point.half,
        "strong": point.strong,
    }


def _sources(recorded):
    return "; ".join(f"{name}: {source['text']}" for name, source in recorded["source"].items())


def by_publisher(table=None) -> Table:
    """Tabulate the mean absolute error in points by publisher of `compared` (the default) or `held_out`."""
    table = compared() if table is None else table
    rows = [_score(name, group) for name, group in table.groupby("publisher", sort=False)]
    rows += [_score(name, table[table[part]]) for part, name in PARTS.items() if table[part].any()]
    rows.append(_score("all", table))
    caption = (
        "Mean absolute error of the efficiency in points. Nothing was fitted to a publisher's own figures; "
        "the interval should contain four of five."
    )
    return Table.of(rows, caption)


def programs() -> Table:
    """Tabulate the efficiencies of programs on OneFlow's machines, and their mean distance from the median."""
    rows = []
    for point, figure in zip(_recorded()["point"], figures(), strict=True):
        if point["source"] == "dlperf":
            percents = 100 * numpy.asarray(point["all"]) / numpy.asarray(point["one"]) / figure.step.ranks
            rows.append(
                {
                    "network": (figure.network, "network", "s"),
                    "gpus": (figure.step.ranks, "GPUs", "d"),
                    "programs": (len(percents), "programs", "d"),
                    "least_percent": (float(percents.min()), "least, %", ".0f"),
                    "median_percent": (float(numpy.median(percents)), "median, %", ".0f"),
                    "most_percent": (float(percents.max()), "most, %", ".0f"),
                    "apart_points": (
                        float(numpy.abs(percents - numpy.median(percents)).mean()),
                        "from the median, points",
                        ".1f",
                    ),
                }
            )
    return Table.of(rows, f"Scaling efficiency. {_recorded()['source']['dlperf']['text']}.")


def _score(name, group):
    def error(values):
        return float(values.abs().mean())

    return {
        "publisher": (name, "publisher", "s"),
        "figures": (len(group), "figures", "d"),
        "punctual": (error(group["punctual_percent"] - group["published_percent"]), "nobody late", ".1f"),
        "model": (error(group["error_points"]), "this model", ".1f"),
        "bias": (float(group["error_points"].mean()), "of it too high by", "+.1f"),
        "always": (error(group["always_error_points"]), f"always {ALWAYS:.0f} %", ".1f"),
        "mean": (error(group["mean_error_points"]), "the others' mean", ".1f"),
        "inside": (int(group["inside"].sum()), "in the interval", "d"),
    }
