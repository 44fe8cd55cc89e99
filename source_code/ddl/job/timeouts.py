"""Timeouts, in seconds: fixed ones that several modules share, and those from environment variables."""

import os

from ddl.errors import InputError

# Ranks that import on a busy or cold machine can start minutes apart; Gloo's own limit is 30 s.
GLOO_TIMEOUT_S = 180
# For a rank's own SIGTERM handler and exit handlers; Slurm and torchrun give as long before they kill.
TERM_GRACE_S = 30.0
# How long Horovod leaves alone a host on which a rank of an elastic run failed: the first number of seconds, doubled
# with each failure, up to the second. Without them the host is never used again.
COOLDOWN_S = (1, 60)


def stall_s() -> float:
    """Return how long a run may be silent before its ranks are asked what they wait for (``DDL_STALL_S``)."""
    return _seconds("DDL_STALL_S", 6)


def idle_s() -> float:
    """Return how long a fork server waits for the next request before it exits (``DDL_WARM_IDLE_S``)."""
    return _seconds("DDL_WARM_IDLE_S", 900)


def live_idle_s() -> float:
    """Return how long live ranks wait for a notebook's next cell before they end (``DDL_LIVE_IDLE_S``)."""
    return _seconds("DDL_LIVE_IDLE_S", 3600)


def cluster_timeout_s() -> float:
    """Return how long the tasks of a cluster wait for each other (``DDL_CLUSTER_TIMEOUT_S``)."""
    return _seconds("DDL_CLUSTER_TIMEOUT_S", 180)


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name) or str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InputError(f"{name} must be a positive number of seconds, got {text!r}")
    return seconds
