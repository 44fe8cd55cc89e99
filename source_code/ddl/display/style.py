"""What every display shares: the style sheet, whether it may move, and how data is named."""

import os
import sys
from pathlib import Path

from ddl.errors import InputError

STYLE = f"<style>\n{Path(__file__).with_name('style.css').read_text()}</style>"


def is_live():
    """Whether what is shown may move: ``DDL_VIEW`` (plain or live), or what fits this process."""
    chosen = os.environ.get("DDL_VIEW")
    if chosen not in (None, "", "live", "plain"):
        raise InputError(f"DDL_VIEW is {chosen!r}; it can be 'plain' or 'live'")
    if chosen:
        return chosen == "live"
    # Jupyter's server names the session of every kernel that it starts for a person; papermill and nbconvert start
    # kernels without one.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return "JPY_SESSION_NAME" in os.environ and getattr(shell, "kernel", None) is not None


def data_label(data):
    """Name a data set, its form and its size: ``synthetic (generated), 10,000 images``."""
    if not data:
        return "data not recorded"
    unit = data.get("unit", "images")
    size = f", {data['train_samples']:,} {unit}" if data.get("train_samples") else ""
    return f"{data['name']} ({data['form']}){size}"


def hardware_label(hardware):
    """Name what a run computed on: ``2 × H100`` or ``4 cores of Some CPU``; None where it is not recorded."""
    if not hardware or not (hardware.get("gpus") or "cpu" in hardware):
        return None
    gpus = hardware.get("gpus")
    return f"{len(gpus)} × {gpus[0]}" if gpus else f"{hardware['cores']} cores of {hardware['cpu']}"


def data_of(runs):
    """Name what runs with results were trained on, each data set once (see `data_label`)."""
    return " and ".join(dict.fromkeys(data_label(run.result.get("data")) for run in runs))
