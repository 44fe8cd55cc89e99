"""Horovod's timeline: what it did with each tensor, and when.

With ``HOROVOD_TIMELINE`` set to a file, rank 0 writes Chrome trace events as they happen: a row (``pid``) a tensor,
with nested begin and end events, times in microseconds. A job that is ended leaves the file without its end, so it is
read event by event. The phases of a tensor:

- negotiation: one rank has it ready, until rank 0 knows that all have it ready
- queued: its turn has come; what is left of the operation beside the next two
- copying: into the fusion buffer, and out again, where several tensors travel together
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
    """Have Horovod write a timeline into the run's folder, or here outside a run; call it before ``hvd.init()``."""
    run = RunFolder.here()
    os.environ["HOROVOD_TIMELINE"] = str(run.path / FILE if run else FILE)


@dataclass(frozen=True)
class Span:
    """One phase of one tensor. A queued span contains the spans of copying and reducing."""

    tensor: str  # as Horovod calls it
    operation: str  # ``ALLREDUCE``, ``BROADCAST``, …
    phase: str  # one of `PHASES`
    start_s: float
    end_s: float


def read(path: str | Path) -> list[Span]:
    """Read a timeline, its spans in the order in which they end; what a cut-off file left open is omitted."""
    spans = []
    for tensor, around, begin, end in _ended(path):
        if phase := _phase(begin["name"], outermost=not around):
            operation = (around or [begin])[0]["name"].removeprefix("NEGOTIATE_")
            spans.append(Span(tensor, operation, phase, begin["ts"] / 1e6, end["ts"] / 1e6))
    return spans


def sent(path: str | Path) -> dict[str, int]:
    """Return the bytes that one rank gave to all-reduces, by the type of their elements as Horovod wrote it down."""
    total: Counter[str] = Counter()
    for _, _, begin, end in _ended(path):
        if begin["name"] == "ALLREDUCE" and "args" in end:
            kind, shape = end["args"]["dtype"], end["args"]["shape"]
            total[kind] += math.prod(map(int, re.findall(r"\d+", shape))) * numpy.dtype(kind).itemsize
    return dict(total)


def _ended(path: str | Path) -> Iterator[tuple[str, list[dict], dict, dict]]:
    """Yield for each activity that ended its tensor, the events that began those around it, its begin, and its end."""
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
    """Return the events of a trace that may end anywhere; one without any is refused."""
    if not path.exists():
        raise InputError(
            f"there is no timeline {path}: was the run launched with timeline=True? "
            "(A run of one rank has nothing to write.)"
        )
    events = list(_parsed(path.read_text(errors="replace")))
    if not events:
        raise InputError(f"{path} has no event of a timeline in it")
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
    # By the library that does it; what else is in a queued span (buffers, waiting) is no transfer.
    return "reducing" if activity.startswith(("GLOO_", "MPI_", "NCCL_", "CCL_")) else None


def rounds(spans: Iterable[Span], prefix: str = "") -> list[list[Span]]:
    """Divide all-reduces, of tensors whose names begin with `prefix`, into rounds in which each tensor appears once."""
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
