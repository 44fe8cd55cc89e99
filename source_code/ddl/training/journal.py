"""The clock and the records of one training: what rank 0 writes down, and how fast it went."""

import contextlib
import os
import time
from datetime import datetime
from pathlib import Path

import psutil

from ddl.records.folder import RunFolder, start_of
from ddl.records.jsonfiles import read_json_lines
from ddl.records.machine import hardware, versions
from ddl.records.recorder import Recorder

__all__ = ["Journal"]

LINE = (
    "epoch {epoch:6.2f}  step {step:5d}  {images_per_s:6.0f} images/s  "
    "training: loss {loss:.3f}, accuracy {accuracy:6.1%}  "
    "held-out: loss {test_loss:.3f}, accuracy {test_accuracy:6.1%}"
)
EVENT_EVERY_S = 0.5  # fast enough for a view that moves, too slow to cost anything


class Journal:
    """Keeps time on every rank; writes and prints on the one rank that is told to.

    The clock runs while training and stands during evaluations. The first epoch (or the first
    quarter of a training of one epoch) counts as warm-up and is left out of the speed.

    A training that was interrupted has several parts and one record. The clock goes on from where
    the checkpoint was, so that what was lost is not counted. Each part leaves out a warm-up of its
    own, and the speed is that of all the rest together. The first step of a resumed part builds the
    graph again, for which the clock stands: it counts as the mean of all steps before it.

    Parameters
    ----------
    writes : bool
        Whether this rank writes: rank 0 and no other.
    steps, steps_per_epoch, global_batch : int
        The plan.
    state : dict, optional
        The `state` of the journal that this one carries on.
    line : str, optional
        What to print of an evaluation, with its figures in braces; None for a script that prints
        them itself.
    """

    def __init__(self, writes, steps, steps_per_epoch, global_batch, state=None, line=LINE):
        self.recorder = Recorder() if writes else None
        self.steps, self.steps_per_epoch, self.global_batch = steps, steps_per_epoch, global_batch
        self.line = line
        self._carried_on = state is not None
        state = state or {
            "seconds": 0.0,
            "history": [],
            "epoch_seconds": [],
            "epoch_start": 0.0,
            "evaluation": (0, 0.0),
            "timed": (0, 0.0),
            "first_step_s": None,
            "resumed_at": [],
        }
        self._seconds, self._epoch_start = state["seconds"], state["epoch_start"]
        self.history, self.epoch_seconds = state["history"], state["epoch_seconds"]
        self._seen = {"evaluation": state["evaluation"]}
        self._timed = state["timed"]  # steps, and the seconds that they took, warm-up left out
        self.first_step_s, self.resumed_at = state["first_step_s"], state["resumed_at"]
        self._resumed = None  # the clock stands

    # ------------------------------------------------------------ writing

    def event(self, name, **fields):
        """Append an event to the run's record."""
        if self.recorder:
            self.recorder.event(name, **fields)

    def note(self, message):
        """Say something that a reader of the run must know; the record says it once."""
        self.print(f"note: {message}")
        if message not in (event["message"] for event in self._recorded("note")):
            self.event("note", message=message)

    def print(self, text):
        """Print a line, on the rank that writes."""
        if self.recorder:
            print(text, flush=True)

    def _recorded(self, name):
        """Return this run's events of that name so far, those of its earlier parts included."""
        if not (self.recorder and self.recorder.folder):
            return []
        events = read_json_lines(self.recorder.folder.events)
        return [event for event in events if event["event"] == name]

    # ------------------------------------------------------------ keeping time

    @property
    def seconds(self):
        """Seconds of training so far, evaluations left out."""
        if self._resumed is None:
            return self._seconds
        return self._seconds + time.perf_counter() - self._resumed

    @contextlib.contextmanager
    def paused(self):
        """Stop the clock for what is not training."""
        self._seconds, self._resumed = self.seconds, None
        yield
        self._resumed = time.perf_counter()

    def start(self, step=0, **fields):
        """Start the clock before the first step, which is number `step` + 1."""
        remaining = self.steps - step
        warm_up = self.steps_per_epoch if remaining > self.steps_per_epoch else remaining // 4
        self._start, self._warm_step = step, step + max(1, warm_up)
        earlier = self._recorded("start")
        if earlier:  # more than the checkpoint knows: this run may have been resumed from it before
            self.resumed_at = earlier[-1]["resumed_at"]
        if earlier or self._carried_on:
            self.resumed_at = [*self.resumed_at, step]
            self.print(f"resumed at step {step}")
        self.event(
            "start",
            step=step,
            resumed_at=self.resumed_at,
            steps=self.steps,
            epochs=self.steps / self.steps_per_epoch,
            steps_per_epoch=self.steps_per_epoch,
            global_batch=self.global_batch,
            **fields,
        )
        self._resumed = time.perf_counter()
        self._seen["event"] = step, self.seconds
        self._wrote = self.seconds

    def _speed_since(self, mark, step):
        """Return images/s since the last call with this mark."""
        before, then = self._seen[mark]
        now = self.seconds
        self._seen[mark] = step, now
        return (step - before) * self.global_batch / (now - then)

    def step(self, step, loss, learning_rate):
        """Count a finished step; return whether it was written down.

        Parameters
        ----------
        step : int
            Steps done.
        loss : convertible to float
            Read only where it is needed: reading waits for the device.
        learning_rate : float
        """
        first = step == self._start + 1
        epoch_ends = step % self.steps_per_epoch == 0
        if first or epoch_ends or step in (self._warm_step, self.steps):
            loss = float(loss)  # a device may still be busy: without this the clock would flatter
        if first:
            self._count_first(step)
        if epoch_ends:
            self.epoch_seconds.append(self.seconds - self._epoch_start)
            self._epoch_start = self.seconds
        if step == self._warm_step:
            self._base = step - self._timed[0], self.seconds - self._timed[1]
        elif step > self._warm_step:
            self._timed = step - self._base[0], self.seconds - self._base[1]
        due = self.seconds - self._wrote >= EVENT_EVERY_S
        if not (first or due or step == self.steps):
            return False
        self._wrote = self.seconds
        speed = self._speed_since("event", step)
        self.event(
            "step",
            **self._where(step),
            images_per_s=None if first else speed,  # the first step builds the graph
            loss=float(loss),
            learning_rate=learning_rate,
        )
        return True

    def _count_first(self, step):
        """Note when the training began, or set the clock to what a resumed part's step counts."""
        if self.first_step_s is None:
            self.first_step_s = time.time() - _began()
        if self._start:
            self._seconds *= step / self._start
            self._resumed = time.perf_counter()

    def _where(self, step):
        return {"step": step, "epoch": step / self.steps_per_epoch, "samples": step * self.global_batch}

    def evaluation(self, step, **figures):
        """Write an evaluation down, and return its row."""
        row = {
            **self._where(step),
            "seconds": self._seconds,
            "images_per_s": self._speed_since("evaluation", step),
            **figures,
        }
        self.history.append(row)
        self.event("evaluation", **row)
        if self.line:
            self.print(self.line.format(**row))
        return row

    # ------------------------------------------------------------ interrupting and ending

    def state(self):
        """Return what a resumed training needs to carry on this journal."""
        return {
            "seconds": self.seconds,
            "history": self.history,
            "epoch_seconds": self.epoch_seconds,
            "epoch_start": self._epoch_start,
            "evaluation": self._seen["evaluation"],
            "timed": self._timed,
            "first_step_s": self.first_step_s,
            "resumed_at": self.resumed_at,
        }

    @property
    def images_per_s(self):
        """The speed without warm-ups; None before there is anything else."""
        steps, seconds = self._timed
        return steps * self.global_batch / seconds if steps else None

    def result(self, **fields):
        """Write ``result.json`` and return it.

        Figures among the `fields` take the place of the last evaluation's: a training may go back
        to earlier weights at its end.
        """
        last = self.history[-1]
        result = {
            **{key: last[key] for key in ("loss", "accuracy", "test_loss", "test_accuracy")},
            **fields,
            "versions": versions(),
            "hardware": hardware(),
            "steps": last["step"],
            "epochs": last["epoch"],
            "samples": last["samples"],
            "epoch_seconds": self.epoch_seconds,
            "images_per_s": self.images_per_s,
            "time_to_first_step_s": self.first_step_s,
            "resumed_at": self.resumed_at,
            "train_seconds": self._seconds,
            "history": self.history,
            "finished": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        if self.recorder:
            self.recorder.result(result)
        return result


def _began():
    """When this run began, or outside a run this process (epoch seconds)."""
    folder = os.environ.get("DDL_RUN_DIR")
    began = start_of(RunFolder(Path(folder))) if folder else None
    return psutil.Process().create_time() if began is None else began
