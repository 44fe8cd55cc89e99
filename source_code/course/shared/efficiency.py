"""Scaling efficiency and step times: tables from run records.

`train_cifar.py` and others record throughput; `step_times.py` records how long each part of a step took.
"""

import json
import math
import statistics
from dataclasses import dataclass

import numpy

from course.shared import cost
from course.shared.bench import PARTS
from ddl.display.style import hardware_label
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.paired_stats import Paired
from ddl.records.paths import reference_dir
from ddl.text import plural

# ---------------------------------------------------------------- counting samples


def samples_processed(samples: int, per_rank_batch: int, ranks: int) -> int:
    """Return the number of samples that an epoch of whole steps processes.

    Raises InputError if there are too few samples for one step.
    """
    for name, value in (("samples", samples), ("per_rank_batch", per_rank_batch), ("ranks", ranks)):
        if value < 1:
            raise InputError(f"{name}={value!r}: at least 1 is needed")
    global_batch = per_rank_batch * ranks
    steps = samples // global_batch
    if not steps:
        raise InputError(
            f"{ranks} ranks × {per_rank_batch:,} samples are {global_batch:,} per step, more than all {samples:,}"
        )
    return steps * global_batch


def efficiency(samples_per_s, ranks, samples_per_s_of_one):
    """Return the scaling efficiency: throughput of N ranks over N times that of one; 1 is perfect."""
    return samples_per_s / (ranks * samples_per_s_of_one)


def published() -> Table:
    """Tabulate a published course's scaling efficiencies in percent, as stated and with samples counted correctly.

    Both computed columns come from the published throughputs: ``as_counted_percent`` counts all samples of the data
    set, as published; ``computed_percent`` counts those in whole steps.
    """
    rows = [json.loads(line) for line in (reference_dir() / "published-efficiency.jsonl").read_text().splitlines()]
    shown = []
    for row in rows:
        ranks, batch, samples = row["ranks"], row["per_rank_batch"], row["samples"]
        percent = 100 * efficiency(row["samples_per_s"], ranks, row["samples_per_s_of_one"])
        corrected = percent * samples_processed(samples, batch, ranks) / samples_processed(samples, batch, 1)
        shown.append(
            {
                "ranks": (ranks, "GPUs", ".0f"),
                "per_rank_batch": (batch, "batch of each", ",.0f"),
                "stated_percent": (row["stated_percent"], "efficiency stated, %", ".0f"),
                "as_counted_percent": (percent, "all samples counted, %", ".1f"),
                "computed_percent": (corrected, "whole steps counted, %", ".1f"),
                **{name: row[name] for name in ("samples", "samples_per_s", "samples_per_s_of_one")},
            }
        )
    return Table.of(shown, f"Published elsewhere, not measured here. {rows[0]['source']}. {rows[0]['why']}.")


# ---------------------------------------------------------------- scaling


ALIKE = {  # what comparable runs must have in common, and why
    "script": "different scripts do different work",
    "parameters": "different networks do different work",
    "precision": "different precisions have different speeds",
    "hardware": "speeds of different machines say nothing about ranks",
}


def scaling(runs, kind="strong") -> Table:
    """Tabulate how throughput grows with ranks, for runs of one training on one kind of machine.

    Repeated runs with the same ranks and threads are represented by their median. One run must have one rank. In
    "strong" scaling, all runs have the same global batch; in "weak" scaling, the same batch per rank.

    ``speedup`` is throughput relative to one rank with as many threads, and ``efficiency`` is speedup / ranks.
    ``equal_hardware`` is throughput relative to one rank with all the row's cores (ranks × threads); NaN without such a
    run.

    Raises InputError if the runs are not comparable.
    """
    held = {"strong": "global_batch", "weak": "per_rank_batch"}.get(kind)
    if not held:
        raise InputError(f"kind must be 'strong' or 'weak', got {kind!r}")
    results = _results(runs)
    for key, why in {held: f"in {kind} scaling it is the same in all runs", **ALIKE}.items():
        _check_same(results, key, why)
    groups = {}
    for result in results:
        groups.setdefault((result["ranks"], result["threads_per_rank"]), []).append(result)
    speed = {key: statistics.median(result["images_per_s"] for result in group) for key, group in groups.items()}
    if not any(ranks == 1 for ranks, _ in speed):
        raise InputError("one of the runs must have one rank, as the baseline")
    rows = [
        {
            "ranks": (ranks, "ranks", "d"),
            "threads": (threads, "threads each", "d"),
            "cores": (ranks * threads, "cores", "d"),
            "global_batch": (groups[ranks, threads][0]["global_batch"], "global batch", ",d"),
            "images_per_s": (value, "images/s", ",.0f"),
            "runs": (len(groups[ranks, threads]), "runs", "d"),
            "speedup": (value / speed.get((1, threads), math.nan), "speed-up by ranks", ".2f"),
            "efficiency": (efficiency(value, ranks, speed.get((1, threads), math.nan)), "efficiency", ".0%"),
            "equal_hardware": (
                value / speed.get((1, ranks * threads), math.nan),
                "against one rank with these cores",
                ".2f",
            ),
        }
        for (ranks, threads), value in sorted(speed.items())
    ]
    batch = "global batch" if kind == "strong" else "batch of each rank"
    caption = (
        f"{kind.capitalize()} scaling: the {batch} stays the same, {results[0][held]:,}. "
        "Median of the runs; samples of whole steps only, without the warm-up. "
        f"{hardware_label(results[0].get('hardware')) or 'Hardware not recorded'}."
    )
    return Table.of(rows, caption)


def _results(runs):
    results = []
    for run in runs:
        if run.result is None:
            raise InputError(f"run {run.name!r} has no result: it is {run.state}")
        if not run.result.get("images_per_s"):
            raise InputError(
                f"run {run.name!r} has no throughput: it has no steps after the warm-up; train for more steps"
            )
        results.append({"precision": "float32", **run.result, "name": run.name})
    if not results:
        raise InputError("no runs to compare")
    return results


def _check_same(results, key, why):
    def value(result):
        found = result.get(key)
        if key == "hardware":  # host name and free memory may differ
            return {name: (found or {}).get(name) for name in ("cpu", "cores", "gpus")}
        if key == "parameters" and found is None:
            return [size["parameters"] for size in result.get("sizes", ())]
        return found

    for result in results[1:]:
        if value(result) != value(results[0]):
            raise InputError(
                f"{key} is {value(results[0])!r} in run {results[0]['name']!r} and "
                f"{value(result)!r} in run {result['name']!r}: {why}"
            )


# ---------------------------------------------------------------- the parts of a step


def step_parts(runs) -> Table:
    """Tabulate the parts of a step in milliseconds, with a row for each model of each run of `step_times.py`.

    ``step_ms`` is the median of whole steps, which may differ a little from the sum of the parts' medians.
    """
    rows = [
        {
            "name": (result["name"], "run", "s"),
            "ranks": (result["ranks"], "ranks", "d"),
            "threads": (result["threads_per_rank"], "threads each", "d"),
            "width": (size["width"], "width", "d"),
            "gradient_bytes": (size["gradient_bytes"], "gradient, bytes", ",d"),
            **{f"{part}_ms": (1e3 * size[f"{part}_s"]["median"], f"{part}, ms", ".2f") for part in PARTS},
            "step_ms": (1e3 * size["step_s"]["median"], "step, ms", ".2f"),
            **{f"step_{key}_ms": 1e3 * size["step_s"][key] for key in ("low", "high")},
            "images_per_s": (size["images_per_s"], "images/s", ",.0f"),
        }
        for result in _measured(runs)
        for size in result["sizes"]
    ]
    return Table.of(rows, "Medians over steps. Waiting: for the slowest rank.")


def start_times(runs) -> Table:
    """Tabulate the start-up phases of runs of `step_times.py`, in seconds.

    ``launch_s`` lasts until rank 0's process exists, ``import_s`` until it has TensorFlow and Horovod, ``init_s`` until
    the ranks have found each other, ``first_step_s`` until the first model is built and has taken a step.
    """
    parts = {"launch": "launch", "import": "import", "init": "hvd.init()", "first step": "first step"}
    rows = [
        {
            "name": (result["name"], "run", "s"),
            "ranks": (result["ranks"], "ranks", "d"),
            **{
                f"{part.replace(' ', '_')}_s": (result["start_s"][part], f"{label}, s", ".2f")
                for part, label in parts.items()
            },
            "total_s": (result["time_to_first_step_s"], "together, s", ".2f"),
        }
        for result in _measured(runs)
    ]
    return Table.of(rows, "From the launch to the end of the first step, on rank 0.")


def _measured(runs):
    results = _results(runs)
    for result in results:
        if not result.get("sizes"):
            raise InputError(f"run {result['name']!r} has no step times: use a run of step_times.py")
    return results


def tuning(runs) -> Table:
    """Compare ways to communicate: runs of `step_times.py` in turns, a row for each name, relative to the first.

    Times and images/s are medians over turns, of the last model. ``ratio`` is throughput relative to the first name's
    run of the same turn, the geometric mean over turns, and ``low`` and ``high`` are its 95 % interval.

    Raises InputError if the runs differ in something else as well, or a name lacks a turn.
    """
    results = _measured(runs)
    for result in results:
        result["batch of a pass"] = result["global_batch"] // result["config"]["aggregate"]
    for key in ("ranks", "threads_per_rank", "hardware", "batch of a pass"):
        _check_same(results, key, "runs may differ only in communication")
    named = {}
    for result in results:
        named.setdefault(result["name"], []).append(result)
    first, *_ = turns = list(named.values())
    if len({len(each) for each in turns}) > 1:
        raise InputError("each name needs as many runs as the others, one in each turn")
    rows = []
    for name, each in named.items():
        result, sizes = each[0], [run["sizes"][-1] for run in each]
        speeds = [size["images_per_s"] for size in sizes]
        pairs = zip(speeds, (run["images_per_s"] for run in first), strict=True)
        gained = Paired(tuple(math.log(speed / of_first) for speed, of_first in pairs))
        communication, step = (1e3 * _median(sizes, key) for key in ("communication_s", "step_s"))
        sent = sizes[0]["sent_bytes"] / result["global_batch"]
        rows.append(
            {
                "name": (name, "run", "s"),
                "fusion_threshold_mb": (result["config"]["fusion_threshold_mb"], "fusion, MB", "g"),
                "cycle_time_ms": (result["config"]["cycle_time_ms"], "cycle, ms", "g"),
                "aggregate": (result["config"]["aggregate"], "passes a step", "d"),
                "precision_bits": (16 if result["config"]["fp16_compression"] else 32, "bits", "d"),
                "sent_bytes_per_image": (sent, "bytes sent an image", ",.0f"),
                "communication_ms": (communication, "communication, ms", ".2f"),
                "step_ms": (step, "step, ms", ".2f"),
                "images_per_s": (statistics.median(speeds), "images/s", ",.0f"),
                "ratio": (math.exp(gained.mean), "ratio", ".2f"),
                "low": (math.exp(gained.low), "from", ".2f"),
                "high": (math.exp(gained.high), "to", ".2f"),
                "verdict": ("first" if each is first else _verdict(gained), "against the first", "s"),
            }
        )
    size = first[0]["sizes"][-1]
    caption = (
        f"Width {size['width']}: {size['tensors']} gradients, together {size['gradient_bytes']:,} bytes; "
        f"{results[0]['ranks']} ranks × {plural(results[0]['threads_per_rank'], 'thread')}. –: Horovod's own setting. "
        f"Ratios within {plural(len(first), 'turn')}, with a 95 % interval."
    )
    return Table.of(rows, caption)


def _median(sizes, key):
    return statistics.median(size[key]["median"] for size in sizes)


def _verdict(gained):
    if gained.low > 0:
        return "faster"
    return "slower" if gained.high < 0 else "not decided"


# ---------------------------------------------------------------- break-even


@dataclass(frozen=True)
class Payoff:
    """Measured and predicted step time by model size."""

    ranks: int  # of the second run; the first has one rank
    bytes: tuple[int, ...]  # of the gradient, increasing
    one_s: tuple[float, ...]  # median step with the whole global batch on one rank
    many_s: tuple[float, ...]  # on `ranks`
    work_s: tuple[float, ...]  # input, computation and update for one rank's part of the batch, on one rank alone
    communication_s: tuple[float, ...]  # measured on `ranks`, without waiting
    fitted: tuple[bool, ...]  # whether alpha and beta were fitted to this size; the others test the prediction
    alpha_s: float
    beta_s_per_byte: float

    @property
    def predicted_s(self):
        """Time of a step on `ranks`, from one rank's work and the fitted communication."""
        return numpy.array(self.work_s) + self.alpha_s + self.beta_s_per_byte * numpy.array(self.bytes)

    @property
    def measured_crossing_bytes(self):
        """The size above which several ranks were faster; None if there is none."""
        return self._crossing(self.many_s)

    @property
    def predicted_crossing_bytes(self):
        """The size above which several ranks are predicted to be faster; None if there is none."""
        return self._crossing(self.predicted_s)

    def _crossing(self, many_s):
        found = cost.crossing(self.bytes, numpy.divide(many_s, self.one_s))
        return None if math.isinf(found) else max(found, self.bytes[0])

    @property
    def test_error(self):
        """Largest relative error of the prediction on held-out sizes."""
        return float(numpy.abs(self.predicted_s / self.many_s - 1)[~numpy.array(self.fitted)].max())

    @property
    def sentence(self):
        def where(crossing):
            if crossing is None:
                return f"{self.ranks} ranks are never faster than one"
            if crossing <= self.bytes[0]:
                return f"{self.ranks} ranks are faster at every size"
            return f"{self.ranks} ranks are faster from {crossing:,.0f} bytes on"

        return (
            f"measured: {where(self.measured_crossing_bytes)}; predicted: "
            f"{where(self.predicted_crossing_bytes)}. On held-out sizes, "
            f"the prediction is off by at most {self.test_error:.0%}"
        )


def payoff(one, many) -> Payoff:
    """Find the model size from which several ranks are faster than one, and predict it.

    `one` and `many` are runs of `step_times.py` with the same widths, global batch and threads per rank, on one rank
    with ``part`` set to the number of ranks of the other.

    ``alpha + beta × bytes`` is fitted to the measured communication of every second size. Added to the time that one
    rank alone takes for its part of the batch, it predicts a step on all ranks. The other sizes test the prediction. It
    ignores waiting for the slowest rank and sharing a machine's memory.

    Raises InputError if the runs don't match or have fewer than three sizes.
    """
    alone, together = _measured([one, many])
    if alone["ranks"] != 1 or together["ranks"] < 2:
        raise InputError(
            f"payoff(one, many): needs one rank and several ranks, got {alone['ranks']} and {together['ranks']}"
        )
    for key in ("global_batch", "threads_per_rank", "parameters", "hardware"):
        _check_same([alone, together], key, "runs may differ only in the number of ranks")
    if len(alone["sizes"]) < 3:
        raise InputError(f"{len(alone['sizes'])} sizes are too few: the fit needs two and the test one")
    ranks = together["ranks"]
    if any(size.get("part", {}).get("of") != ranks for size in alone["sizes"]):
        raise InputError(f"the run on one rank did not time 1/{ranks} of the batch: launch it with part={ranks}")
    pairs = sorted(zip(alone["sizes"], together["sizes"], strict=True), key=lambda pair: pair[0]["gradient_bytes"])
    size_bytes = [size["sent_bytes"] for _, size in pairs]
    communication = [size["communication_s"]["median"] for _, size in pairs]
    alpha, beta = cost.line(size_bytes[::2], communication[::2])
    return Payoff(
        ranks=ranks,
        bytes=tuple(size_bytes),
        one_s=tuple(size["step_s"]["median"] for size, _ in pairs),
        many_s=tuple(size["step_s"]["median"] for _, size in pairs),
        work_s=tuple(
            sum(size["part"][f"{part}_s"]["median"] for part in ("input", "computation", "update")) for size, _ in pairs
        ),
        communication_s=tuple(communication),
        fitted=tuple(index % 2 == 0 for index in range(len(pairs))),
        alpha_s=alpha,
        beta_s_per_byte=beta,
    )
