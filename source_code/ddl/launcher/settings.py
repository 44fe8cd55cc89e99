"""Seconds that a user sets with variables of the environment."""

import os
from collections.abc import Mapping

from ddl.errors import InputError


def stall_s() -> float:
    """After how many seconds without anything new ranks are asked for whom they wait."""
    return _seconds("DDL_STALL_S", 6)


def idle_s(environment: Mapping[str, str] = os.environ) -> float:
    """After how many seconds without a request a template ends."""
    return _seconds("DDL_WARM_IDLE_S", 900, environment)


def cluster_timeout_s() -> float:
    """How many seconds tasks of a cluster wait for each other."""
    return _seconds("DDL_CLUSTER_TIMEOUT_S", 180)


def _seconds(name: str, default: float, environment: Mapping[str, str] = os.environ) -> float:
    text = environment.get(name) or str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InputError(f"{name}={text!r}: a number of seconds above 0 is needed, for example {default}")
    return seconds
