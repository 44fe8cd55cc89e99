"""float32 versus bfloat16: bytes sent, and paired runs that differ only in precision."""

import statistics
from dataclasses import dataclass

from course.shared.recorded import recorded
from course.training import timeline
from ddl.display.style import hardware_label
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.paired_stats import Paired


@dataclass(frozen=True)
class Pairs:
    """A metric of paired runs in float32 and bfloat16."""

    float32: tuple[float, ...]
    bfloat16: tuple[float, ...]

    @property
    def difference(self) -> Paired:
        """The paired differences, bfloat16 minus float32."""
        return Paired(tuple(b - a for a, b in zip(self.float32, self.bfloat16, strict=True)))

    @property
    def ratios(self) -> list[float]:
        """bfloat16 over float32."""
        return [b / a for a, b in zip(self.float32, self.bfloat16, strict=True)]


def pairs(runs, figure: str) -> Pairs:
    """Return a metric of each run's result, paired by ``pair`` if available, otherwise by ``seed``."""
    found: dict = {}
    for run in runs:
        result = run.result
        found.setdefault(result.get("pair", result["seed"]), {})[result["precision"]] = result[figure]
    for key, both in found.items():
        if set(both) != {"float32", "bfloat16"}:
            raise InputError(f"pair {key} has runs in {' and '.join(sorted(both))}: needs one in each precision")
    return Pairs(*(tuple(both[name] for both in found.values()) for name in ("float32", "bfloat16")))


def table() -> Table:
    """Tabulate the recorded pairs: accuracy with its paired difference, and images/s with its ratio."""
    accuracy_runs, speed_runs = recorded("precision"), recorded("precision-speed")
    accuracy, speed = pairs(accuracy_runs, "test_accuracy"), pairs(speed_runs, "images_per_s")
    rows = [
        {
            "figure": "held-out accuracy, %",
            "float32": f"{100 * statistics.fmean(accuracy.float32):.1f}",
            "bfloat16": f"{100 * statistics.fmean(accuracy.bfloat16):.1f}",
            "compared": f"{100 * accuracy.difference.mean:+.1f} ± {100 * accuracy.difference.half_width:.1f} points",
            "pairs": len(accuracy.float32),
        },
        {
            "figure": "images/s",
            "float32": f"{statistics.median(speed.float32):,.0f}",
            "bfloat16": f"{statistics.median(speed.bfloat16):,.0f}",
            "compared": f"× {statistics.median(speed.ratios):.2f} ({min(speed.ratios):.2f} to {max(speed.ratios):.2f})",
            "pairs": len(speed.float32),
        },
    ]
    result = accuracy_runs[0].result
    data = result["data"]
    caption = (
        f"Recorded on {result['finished'][:10]}, {hardware_label(result['hardware'])}; two ranks of one "
        f"thread. Accuracy: {data['train_samples']:,} images of {data['name']} ({data['form']}), "
        f"{result['epochs']:g} epochs, mean, and mean difference of equal seeds with its 95 % t interval. "
        "Images/s: medians, and the median of the pairs' ratios (lowest to highest)."
    )
    labeled = [{name: (value, "" if name == "figure" else name, "g") for name, value in row.items()} for row in rows]
    return Table.of(labeled, caption)


def here_or_recorded(runs) -> list:
    """Return the runs, or the first recorded pair, with a note, if none computed in bfloat16."""
    if any(run.result["precision"] == "bfloat16" for run in runs):
        return list(runs)
    pair = recorded("precision-speed")[:2]
    cpu = pair[0].result["hardware"]["cpu"]
    print(f"This machine trains no faster in bfloat16: these results were recorded on a {cpu}.")
    return pair


def sent(runs) -> Table:
    """Tabulate one rank's all-reduce traffic for runs with a timeline: bytes per step by data type."""
    rows = [
        {
            "run": (run.name, "run", "s"),
            "precision": (run.result["precision"], "computed in", "s"),
            "type": (kind, "sent as", "s"),
            "bytes": (size / run.result["steps"], "bytes a step", ",.0f"),
            "gradient_bytes": (4 * run.result["parameters"], "gradient in float32, bytes", ",d"),
        }
        for run in runs
        for kind, size in (run.result.get("sent") or timeline.sent(run.folder / timeline.FILE)).items()
    ]
    caption = "Data that one rank passed to Horovod's all-reduces per step, including evaluations and batch statistics."
    return Table.of(rows, caption)
