"""The log of a training: its clock, its log and its result."""

import contextlib
import os
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

import numpy as np
import psutil

from course.training.precision import current
from ddl.records.folder import RunFolder, start_of
from ddl.records.jsonfiles import read_json, read_json_lines
from ddl.records.machine import hardware, threads_per_rank, versions
from ddl.records.recorder import Recorder

LINE = (
    "epoch {epoch:6.2f}  step {step:5d}  {images_per_s:6.0f} images/s  "
    "training: loss {loss:.3f}, accuracy {accuracy:6.1%}  "
    "held-out: loss {test_loss:.3f}, accuracy {test_accuracy:6.1%}"
)
CLEAN = ("clean_loss", "clean_accuracy")
EVENT_EVERY_S = 0.5  # often enough for a live view, too rarely to cost time


def provenance() -> dict:
    """Return a result's origin: script, command line, threads, precision, versions, machine and date."""
    return {
        "script": os.path.basename(sys.argv[0]),
        "argv": sys.argv[1:],
        "threads_per_rank": threads_per_rank(),
        "precision": current(),  # scripts with another precision override it
        "versions": versions(),
        "hardware": hardware(),
        "finished": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


class Startup:
    """Time from a run's launch to the end of its first step, by part, on this rank.

    `parts` holds seconds in order: ``launch``, until this rank starts; ``import``, until this object is created; then
    one for each call of `ends`.
    """

    def __init__(self):
        began, self._then = _rank_began(), time.time()
        self.parts = {"launch": began - _began(), "import": self._then - began}

    def ends(self, part: str):
        """Count the seconds since the previous part's end as `part`."""
        now = time.time()
        self.parts[part], self._then = now - self._then, now


class Means:
    """Running means of a step's metrics since the last evaluation, read once because reading waits for the device."""

    def __init__(self):
        self._totals, self._steps = np.zeros(2, np.float32), 0

    def add(self, figures):
        """Add a step's figures, float32 ``[n]``: loss, accuracy, and others, which do not count."""
        if len(self._totals) < len(figures):  # cut off when read, because a GPU takes a while to cut
            self._totals = np.pad(self._totals, (0, len(figures) - len(self._totals)))
        self._totals, self._steps = self._totals + figures, self._steps + 1

    def pop(self) -> list[float]:
        """Return the means of loss and accuracy, and reset them."""
        means = self._totals / self._steps
        self._totals, self._steps = np.zeros(2, np.float32), 0
        return np.asarray(means)[:2].tolist()

    def state(self) -> dict:
        """Return the state for a checkpoint."""
        return {"since": self._steps, "totals": np.asarray(self._totals)[:2].tolist()}

    def restore(self, state: dict):
        """Restore another's `state`; an empty one changes nothing."""
        if state:
            self._totals, self._steps = np.array(state["totals"], np.float32), state["since"]


@dataclass
class Times:
    """A log's progress so far, which a checkpoint keeps."""

    seconds: float = 0.0  # of training, without evaluations
    history: list = field(default_factory=list)  # rows of evaluations
    epoch_seconds: list = field(default_factory=list)
    epoch_start: float = 0.0
    evaluation: tuple = (0, 0.0)  # step and seconds of the last one
    timed: tuple = (0, 0.0)  # steps and their seconds, without warm-up
    first_step_s: float | None = None
    start_s: dict | None = None
    resumed_at: list = field(default_factory=list)


class Writer:
    """A run's record and log. One rank writes; on the others, calls do nothing."""

    def __init__(self, writes: bool):
        self.recorder = Recorder() if writes else None

    def event(self, name, **fields):
        """Append an event to the run's record."""
        if self.recorder:
            self.recorder.event(name, **fields)

    def result(self, **fields) -> dict:
        """Write ``result.json``, with these fields and their origin, and return it."""
        result = {**provenance(), "history": [], **fields}
        if self.recorder:
            self.recorder.result(result)
        return result

    def note(self, message):
        """Print a note, and add it to the record once."""
        self.print(f"note: {message}")
        if message not in (event["message"] for event in self._recorded("note")):
            self.event("note", message=message)

    def print(self, text):
        """Print a line, on the rank that writes."""
        if self.recorder:
            print(text, flush=True)

    def _recorded(self, name):
        """Return this run's events of that name so far, including parts before a restart."""
        if not (self.recorder and self.recorder.folder):
            return []
        events = read_json_lines(self.recorder.folder.events)
        return [event for event in events if event["event"] == name]


class TrainingLog(Writer):
    """TrainingLog of a training: keeps time on every rank, writes and prints on one.

    The clock runs during training and stops during evaluations. The first epoch (or the first quarter of a one-epoch
    training) is warm-up and does not count toward the speed.

    An interrupted training has several parts and one record. The clock continues from the checkpoint, so lost steps do
    not count. The speed excludes each part's warm-up. The first step of a resumed part builds the graph again, so it
    counts as the mean of all steps before it.

    Only a rank that `writes` has records: rank 0. `state` comes from the log that this one continues, `line` is the
    format of an evaluation's line (None: print nothing), and `samples_before` is added to the sample count.
    """

    def __init__(
        self,
        writes: bool,
        steps: int,
        steps_per_epoch: int,
        global_batch: int,
        state: dict | None = None,
        line: str | None = LINE,
        startup: Startup | None = None,
        samples_before: int = 0,
    ):
        super().__init__(writes)
        self.steps, self.steps_per_epoch, self.global_batch = steps, steps_per_epoch, global_batch
        self.line, self._startup, self._samples_before = line, startup, samples_before
        self._carried_on = state is not None
        self._times = Times(**(state or {}))
        self._seen = {"evaluation": self._times.evaluation}
        self._first = None  # step and seconds at the end of the training's first step
        self._resumed = None  # the clock is stopped

    @property
    def history(self) -> list[dict]:
        """The rows of all evaluations."""
        return self._times.history

    @property
    def seconds(self):
        """Seconds of training so far, without evaluations."""
        if self._resumed is None:
            return self._times.seconds
        return self._times.seconds + time.perf_counter() - self._resumed

    @contextlib.contextmanager
    def paused(self):
        """Stop the clock while doing something other than training."""
        self._times.seconds, self._resumed = self.seconds, None
        yield
        self._resumed = time.perf_counter()

    def start(self, step=0, precision="float32", **fields):
        """Start the clock before the first step, which is number `step` + 1."""
        remaining = self.steps - step
        warm_up = self.steps_per_epoch if remaining > self.steps_per_epoch else remaining // 4
        self._start, self._warm_step = step, step + max(1, warm_up)
        earlier = self._recorded("start")
        if earlier:  # may be later than the checkpoint, if this run has resumed from it before
            self._times.resumed_at = earlier[-1]["resumed_at"]
        if earlier or self._carried_on:
            self._times.resumed_at = [*self._times.resumed_at, step]
            self.print(f"resumed at step {step}")
        self.event(
            "start",
            step=step,
            resumed_at=self._times.resumed_at,
            steps=self.steps,
            epochs=self.steps / self.steps_per_epoch,
            steps_per_epoch=self.steps_per_epoch,
            global_batch=self.global_batch,
            precision=precision,
            **fields,
        )
        self._resumed = time.perf_counter()
        self._seen["event"] = step, self.seconds
        self._wrote = self.seconds

    def _speed_since(self, mark, step):
        """Return images/s since the last call with this mark."""
        before, then = self._seen[mark]
        if self._first and before < self._first[0] < step:  # the first step builds the graph, and compiles for a GPU
            before, then = self._first
        now = self.seconds
        self._seen[mark] = step, now
        return (step - before) * self.global_batch / (now - then)

    def step(self, step: int, loss, learning_rate: float) -> bool:
        """Count a finished step; return whether it was recorded.

        The loss, or figures of which it is the first, is read only if needed, because reading waits for the device.
        """
        first = step == self._start + 1
        if first or self.epoch_ends(step) or step == self._warm_step:
            loss = float(np.ravel(loss)[0])  # wait for the device, or the time would be too short
        if first:
            self._count_first(step)
        if step % self.steps_per_epoch == 0:
            self._times.epoch_seconds.append(self.seconds - self._times.epoch_start)
            self._times.epoch_start = self.seconds
        if step == self._warm_step:
            self._base = step - self._times.timed[0], self.seconds - self._times.timed[1]
        elif step > self._warm_step:
            self._times.timed = step - self._base[0], self.seconds - self._base[1]
        due = self.seconds - self._wrote >= EVENT_EVERY_S
        if not (first or due or step == self.steps):
            return False
        self._wrote = self.seconds
        speed = self._speed_since("event", step)
        self.event(
            "step",
            **self._where(step),
            images_per_s=None if first else speed,  # the first step builds the graph
            loss=float(np.ravel(loss)[0]),
            learning_rate=learning_rate,
        )
        return True

    def _count_first(self, step):
        """Record when the training began, or count a resumed part's first step as the mean of earlier ones."""
        if self._times.first_step_s is None:
            self._times.first_step_s = time.time() - _began()
            if self._startup:
                self._startup.ends("first step")
                self._times.start_s = self._startup.parts
        if self._start:
            self._times.seconds *= step / self._start
            self._resumed = time.perf_counter()
        else:
            self._first = step, self.seconds

    def _where(self, step):
        samples = self._samples_before + step * self.global_batch
        return {"step": step, "epoch": step / self.steps_per_epoch, "samples": samples}

    def epoch_ends(self, step: int, every: int = 1) -> bool:
        """Return whether this step ends an epoch to evaluate, or the training."""
        return step % (every * self.steps_per_epoch) == 0 or step == self.steps

    def evaluation(self, step: int, **figures) -> dict:
        """Record an evaluation and return its row."""
        row = {
            **self._where(step),
            "seconds": self._times.seconds,
            "images_per_s": self._speed_since("evaluation", step),
            **figures,
        }
        self._times.history.append(row)
        self.event("evaluation", **row)
        if self.line:
            self.print(self.line.format(**row))
        return row

    def state(self) -> dict:
        """Return the state for a checkpoint."""
        return asdict(replace(self._times, seconds=self.seconds, evaluation=self._seen["evaluation"]))

    @property
    def images_per_s(self):
        """The speed without warm-up; None before its end."""
        steps, seconds = self._times.timed
        return steps * self.global_batch / seconds if steps else None

    def result(self, **fields) -> dict:
        """Write ``result.json`` and return it.

        Metrics among the `fields` override the last evaluation's, because a training may return to earlier weights.
        """
        last = self.history[-1]
        figures = ("loss", "accuracy", "test_loss", "test_accuracy", *CLEAN)
        return super().result(
            **{key: last[key] for key in figures if key in last}
            | fields
            | ({"start_s": self._times.start_s} if self._times.start_s else {}),
            steps=last["step"],
            epochs=last["epoch"],
            samples=last["samples"],
            epoch_seconds=self._times.epoch_seconds,
            images_per_s=self.images_per_s,
            time_to_first_step_s=self._times.first_step_s,
            resumed_at=self._times.resumed_at,
            train_seconds=self._times.seconds,
            history=self.history,
        )


def _rank_began():
    """Return when this rank, or outside a run this process, started (epoch seconds)."""
    # From `ddl.start.worker`'s record, because a process's start time is only exact to a second.
    folder = RunFolder.here()
    record = read_json(folder.rank(int(os.environ.get("HOROVOD_RANK", "0")))) if folder else None
    return record["started"] if record else psutil.Process().create_time()


def _began():
    """Return when this run, or outside a run this process, started (epoch seconds)."""
    folder = RunFolder.here()
    began = start_of(folder) if folder else None
    return psutil.Process().create_time() if began is None else began
