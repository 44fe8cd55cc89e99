"""Cost in loss of sending fewer bytes: runs of ``few_messages.py``, paired by seed."""

from dataclasses import dataclass

from ddl.errors import InputError
from ddl.paired_stats import Paired, by_seed, paired

BASELINE = "all-reduce"
FIGURE = "held_out_loss"


@dataclass(frozen=True)
class Method:
    """A communication method: bytes relative to the baseline, and paired differences in loss (nats)."""

    name: str
    sent_share: float
    pairs: Paired


def differences(runs) -> list[Method]:
    """Compare all methods with an all-reduce of gradients in each step, most bytes first.

    Raises InputError without a baseline run of the same seed.
    """
    configurations = {}
    for run in runs:
        configurations.setdefault(run.name, []).append(run)
    if BASELINE not in configurations:
        raise InputError(f"no run named {BASELINE!r} to compare with; available: {', '.join(configurations) or 'none'}")
    baseline = configurations.pop(BASELINE)
    most = baseline[0].result["sent_bytes"]
    methods = [
        Method(
            name,
            configuration[0].result["sent_bytes"] / most,
            paired(by_seed(baseline, FIGURE), by_seed(configuration, FIGURE)),
        )
        for name, configuration in configurations.items()
    ]
    return sorted(methods, key=lambda method: -method.sent_share)
