"""What fewer bytes between ranks cost in loss: runs of ``few_messages.py``, in pairs of the same seed."""

from dataclasses import dataclass

from ddl.errors import InputError
from ddl.paired_stats import Paired, by_seed, paired

BASELINE = "all-reduce"
FIGURE = "held_out_loss"


@dataclass(frozen=True)
class Way:
    """A way of exchanging: its bytes as a share of the baseline's, and its loss minus the baseline's (nats)."""

    name: str
    sent_share: float
    pairs: Paired


def differences(runs) -> list[Way]:
    """Compare all ways among the runs with an all-reduce of gradients in each step, with the most bytes first.

    InputError, if there is no run of the baseline with the same seed.
    """
    arms = {}
    for run in runs:
        arms.setdefault(run.name, []).append(run)
    if BASELINE not in arms:
        raise InputError(f"there is no run named {BASELINE!r} to compare with; there are: {', '.join(arms) or 'none'}")
    baseline = arms.pop(BASELINE)
    most = baseline[0].result["sent_bytes"]
    ways = [
        Way(name, arm[0].result["sent_bytes"] / most, paired(by_seed(baseline, FIGURE), by_seed(arm, FIGURE)))
        for name, arm in arms.items()
    ]
    return sorted(ways, key=lambda way: -way.sent_share)
