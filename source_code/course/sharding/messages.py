"""Cost in loss of sending fewer bytes: runs of ``few_messages.py``, paired by seed."""

from dataclasses import dataclass

from ddl.errors import InputError
from ddl.paired_stats import Paired, by_seed, paired

BASELINE = "all-reduce"
FIGURE = "held_out_loss"


@dataclass(frozen=True)
class Way:
    """A communication method: bytes relative to the baseline, and paired differences in loss (nats)."""

    name: str
    sent_share: float
    pairs: Paired


def differences(runs) -> list[Way]:
    """Compare all methods with an all-reduce of gradients in each step, most bytes first.

    Raises InputError without a baseline run of the same seed.
    """
    arms = {}
    for run in runs:
        arms.setdefault(run.name, []).append(run)
    if BASELINE not in arms:
        raise InputError(f"no run named {BASELINE!r} to compare with; available: {', '.join(arms) or 'none'}")
    baseline = arms.pop(BASELINE)
    most = baseline[0].result["sent_bytes"]
    ways = [
        Way(name, arm[0].result["sent_bytes"] / most, paired(by_seed(baseline, FIGURE), by_seed(arm, FIGURE)))
        for name, arm in arms.items()
    ]
    return sorted(ways, key=lambda way: -way.sent_share)
