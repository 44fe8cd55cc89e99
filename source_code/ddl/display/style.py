"""Style sheet, live or plain display, and labels of data and hardware."""

import os
import sys
from pathlib import Path

from ddl.errors import InputError

STYLE = f"<style>\n{Path(__file__).with_name('style.css').read_text('utf-8')}</style>"


def is_live():
    """Return whether views are live: as ``DDL_VIEW`` says (plain or live), otherwise only in a person's notebook."""
    chosen = os.environ.get("DDL_VIEW")
    if chosen not in (None, "", "live", "plain"):
        raise InputError(f"DDL_VIEW must be 'plain' or 'live', got {chosen!r}")
    if chosen:
        return chosen == "live"
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return _has_session() and getattr(shell, "kernel", None) is not None


def is_interactive():
    """Return whether buttons and sliders are shown: views are live, and a person can use them."""
    return is_live() and _has_session()


def _has_session():
    """Return whether Jupyter's server started this kernel for a person, as papermill and nbconvert do not."""
    return "JPY_SESSION_NAME" in os.environ


def data_label(data):
    """Return a data set's name, form and size: ``synthetic (generated), 10,000 images``."""
    if not data:
        return "data not recorded"
    unit = data.get("unit", "images")
    size = f", {data['train_samples']:,} {unit}" if data.get("train_samples") else ""
    return f"{data['name']} ({data['form']}){size}"


def hardware_label(hardware):
    """Return what a run computed on: ``2 × H100`` or ``4 cores of Some CPU``; None if it is not recorded."""
    if not hardware or not (hardware.get("gpus") or "cpu" in hardware):
        return None
    gpus = hardware.get("gpus")
    return f"{len(gpus)} × {gpus[0]}" if gpus else f"{hardware['cores']} cores of {hardware['cpu']}"


def data_of(runs):
    """Return the labels of the data sets that these runs were trained on, each once."""
    return " and ".join(dict.fromkeys(data_label(run.result.get("data")) for run in runs))
