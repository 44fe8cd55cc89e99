"""Horovod's timeline: when each tensor passed through each phase.

With ``HOROVOD_TIMELINE`` set to a file, rank 0 writes Chrome trace events while it runs: one row (``pid``) per tensor,
with nested begin and end events and times in microseconds. If the job is killed, the file lacks its end, so it is read
event by event. The phases of a tensor:

- negotiation: from the first rank that has the tensor ready until rank 0 knows that all have
- queued: the whole operation after that, including the next two phases
- copying: into and out of the fusion buffer, if several tensors are sent together
- reducing: the ranks exchange and add
"""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from ddl.errors import InputError
from ddl.records.folder import RunFolder

FILE = "timeline.json"  # in a run's folder
PHASES = ("negotiation", "queued", "copying", "reducing")


def request() -> None:
    """Make Horovod write a timeline to the run's folder or, outside a run, here. Call it before ``hvd.init()``."""
    run = RunFolder.here()
    os.environ["HOROVOD_TIMELINE"] = str(run.path / FILE if run else FILE)


@dataclass(frozen=True)
class Span:
    """One phase of one tensor. A queued span contains the spans of copying and reducing."""

    tensor: str  # Horovod's name for it
    operation: str  # ``ALLREDUCE``, ``BROADCAST``, …
    phase: str  # one of `PHASES`
    start_s: float
    end_s: float


def read(path: str | Path) -> list[Span]:
    """Return the finished spans of a timeline, in the order in which they end."""
    spans = []
    for tensor, around, begin, end in _ended(path):
        if phase := _phase(begin["name"], outermost=not around):
            operation = (around or [begin])[0]["name"].removeprefix("NEGOTIATE_")
            spans.append(Span(tensor, operation, phase, begin["ts"] / 1e6, end["ts"] / 1e6))
    return spans


def sent(path: str | Path) -> dict[str, int]:
    """Return the number of bytes that one rank passed to all-reduces, by data type."""
    total: Counter[str] = Counter()
    for _, _, begin, end in _ended(path):
        if begin["name"] == "ALLREDUCE" and "args" in end:
            kind, shape = end["args"]["dtype"], end["args"]["shape"]
            total[kind] += math.prod(map(int, re.findall(r"\d+", shape))) * numpy.dtype(kind).itemsize
    return dict(total)


def _ended(path: str | Path) -> Iterator[tuple[str, list[dict], dict, dict]]:
    """Yield (tensor, begin events of the enclosing activities, begin event, end event) of each finished activity."""
    names: dict[Any, str] = {}
    under_way: dict[Any, list[dict]] = {}
    for event in _events(Path(path)):
        row, kind = event.get("pid"), event.get("ph")
        if kind == "M" and event.get("name") == "process_name":
            names[row] = event["args"].get("name", "")
        elif kind == "B":
            under_way.setdefault(row, []).append(event)
        elif kind == "E" and under_way.get(row):
            begin = under_way[row].pop()
            yield names.get(row, str(row)), under_way[row], begin, event


def _events(path: Path) -> list[dict]:
    """Return the events of a trace that may be truncated; raise InputError if there are none."""
    if not path.exists():
        raise InputError(f"no timeline {path}: launch with timeline=True, on at least two ranks")
    events = list(_parsed(path.read_text(errors="replace")))
    if not events:
        raise InputError(f"{path} contains no timeline events")
    return events


def _parsed(text: str) -> Iterator[dict]:
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(text) and text[at] in "[], \r\n\t":
            at += 1
        try:
            event, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return
        yield event


def _phase(activity: str, outermost: bool) -> str | None:
    if activity.startswith("NEGOTIATE_"):
        return "negotiation"
    if outermost:
        return "queued"
    if activity.startswith("MEMCPY_"):
        return "copying"
    # The prefix names the library; other activities in a queued span (buffers, waiting) transfer nothing.
    return "reducing" if activity.startswith(("GLOO_", "MPI_", "NCCL_", "CCL_")) else None


def rounds(spans: Iterable[Span], prefix: str = "") -> list[list[Span]]:
    """Group the all-reduces of tensors with this name prefix into rounds in which each tensor appears once."""
    found: list[list[Span]] = []
    seen: set[str] = set()
    for span in sorted(spans, key=lambda span: span.start_s):
        if span.operation != "ALLREDUCE" or not span.tensor.startswith(prefix):
            continue
        if span.phase == "negotiation":
            if not found or span.tensor in seen:
                found.append([])
                seen = set()
            seen.add(span.tensor)
        if found:
            found[-1].append(span)
    return found
