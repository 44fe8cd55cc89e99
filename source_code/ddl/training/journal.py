"""The clock and the records of one training: what rank 0 writes down, and how fast it went."""

import contextlib
import os
import sys
import time
from datetime import datetime

import numpy as np
import psutil

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
EVENT_EVERY_S = 0.5  # fast enough for a view that moves, too slow to cost anything


def provenance() -> dict:
    """Return what results say of their origin: script, command line, threads, precision, versions, machine and date."""
    return {
        "script": os.path.basename(sys.argv[0]),
        "argv": sys.argv[1:],
        "threads_per_rank": threads_per_rank(),
        "precision": "float32",  # what computes in another says so
        "versions": versions(),
        "hardware": hardware(),
        "finished": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


class Startup:
    """Where the seconds from a run's launch to the end of its first step go, on this rank.

    Attributes
    ----------
    parts : dict
        Seconds by part, in their order: ``launch``, until this rank is there (`ddl.rank.worker` says when; a
        process's own time of birth is exact to a second only); ``import``, until this object is made; then one for
        each call of `ends`.
    """

    def __init__(self):
        began, self._then = _rank_began(), time.time()
        self.parts = {"launch": began - _began(), "import": self._then - began}

    def ends(self, part: str):
        """Count the seconds since the last part's end as those of `part`."""
        now = time.time()
        self.parts[part], self._then = now - self._then, now


class Means:
    """The means of a step's figures since the last evaluation.

    They are added where they are, and read once: reading a figure waits for the device.
    """

    def __init__(self):
        self._totals, self._steps = np.zeros((), np.float32), 0

    def add(self, figures):
        """Add a step's figures, float32 ``[n]``."""
        self._totals, self._steps = self._totals + figures, self._steps + 1

    def take(self) -> list[float]:
        """Return the means, and begin anew."""
        means = self._totals / self._steps
        self._totals, self._steps = np.zeros((), np.float32), 0
        return np.asarray(means).tolist()

    def state(self) -> dict:
        """Return what a resumed training goes on from."""
        return {"since": self._steps, "totals": np.asarray(self._totals).tolist()}

    def restore(self, state: dict):
        """Go on from another's `state`; from an empty one nothing changes."""
        if state:
            self._totals, self._steps = np.array(state["totals"], np.float32), state["since"]


class Journal:
    """Keeps time on every rank; writes and prints on one.

    The clock runs during training and stops during evaluations. The first epoch (or the first
    quarter of a training of one epoch) is warm-up, and left out of the speed.

    A training that was interrupted has several parts and one record. The clock goes on from the
    checkpoint, so that lost steps are not counted. Each part leaves out its own warm-up; the speed
    is that of all the rest. The first step of a resumed part builds the graph again: its time is
    counted as the mean of all steps before it.

    Parameters
    ----------
    writes
        Whether this rank writes: rank 0 alone.
    steps, steps_per_epoch, global_batch
        The plan.
    state
        The `state` of the journal that this one carries on.
    line
        What to print of an evaluation, its figures in braces; None where the script prints them.
    startup
        The parts of this process's start, which end with the first step.
    samples_before
        That are counted before the first step.
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
        self.recorder = Recorder() if writes else None
        self.steps, self.steps_per_epoch, self.global_batch = steps, steps_per_epoch, global_batch
        self.line, self._startup, self._samples_before = line, startup, samples_before
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
        self.start_s = state.get("start_s")
        self._resumed = None  # the clock stands

    # ------------------------------------------------------------ writing

    def event(self, name, **fields):
        """Append an event to the run's record."""
        if self.recorder:
            self.recorder.event(name, **fields)

    def note(self, message):
        """Tell a reader of the run something; the record has it once."""
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

    def start(self, step=0, precision="float32", **fields):
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
            precision=precision,
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

    def step(self, step: int, loss, learning_rate: float) -> bool:
        """Count a finished step; return whether it was written down.

        The loss is read (``float(loss)``) only where it is needed: reading waits for the device.
        """
        first = step == self._start + 1
        if first or self.epoch_ends(step) or step == self._warm_step:
            loss = float(loss)  # a device may still be busy: without this the clock would flatter
        if first:
            self._count_first(step)
        if step % self.steps_per_epoch == 0:
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
        """Note when the training began, or count a resumed part's first step as the mean of those before."""
        if self.first_step_s is None:
            self.first_step_s = time.time() - _began()
            if self._startup:
                self._startup.ends("first step")
                self.start_s = self._startup.parts
        if self._start:
            self._seconds *= step / self._start
            self._resumed = time.perf_counter()

    def _where(self, step):
        samples = self._samples_before + step * self.global_batch
        return {"step": step, "epoch": step / self.steps_per_epoch, "samples": samples}

    def epoch_ends(self, step: int, every: int = 1) -> bool:
        """Whether an epoch, or every so many-th, or the training, ends with this step."""
        return step % (every * self.steps_per_epoch) == 0 or step == self.steps

    def evaluate_if_due(
        self, step: int, evaluate, means: Means, *, every=0, epochs=1, at_once=False, evaluate_clean=None, **figures
    ) -> dict | None:
        """Evaluate where an epoch ends, or every so many epochs, or steps, or at once; return the row, or None.

        `evaluate` returns held-out loss and accuracy; `evaluate_clean`, called where an epoch ends, those of training
        samples as they are; `means` has the training's own. The clock stops.
        """
        ends = self.epoch_ends(step, epochs)
        if not (at_once or ends or (every and step % every == 0)):
            return None
        loss, accuracy = means.take()
        with self.paused():
            test_loss, test_accuracy = evaluate()
            clean = dict(zip(CLEAN, evaluate_clean(), strict=True)) if ends and evaluate_clean else {}
        return self.evaluation(
            step, loss=loss, accuracy=accuracy, test_loss=test_loss, test_accuracy=test_accuracy, **clean, **figures
        )

    def evaluation(self, step: int, **figures) -> dict:
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

    def state(self) -> dict:
        """Return what a resumed training needs to carry on this journal."""
        return {
            "seconds": self.seconds,
            "history": self.history,
            "epoch_seconds": self.epoch_seconds,
            "epoch_start": self._epoch_start,
            "evaluation": self._seen["evaluation"],
            "timed": self._timed,
            "first_step_s": self.first_step_s,
            "start_s": self.start_s,
            "resumed_at": self.resumed_at,
        }

    @property
    def images_per_s(self):
        """The speed without warm-ups; None while there is nothing else."""
        steps, seconds = self._timed
        return steps * self.global_batch / seconds if steps else None

    def result(self, **fields) -> dict:
        """Write ``result.json`` and return it.

        Figures among the `fields` take the place of the last evaluation's: a training may return
        to earlier weights at its end.
        """
        last = self.history[-1]
        result = {
            **{key: last[key] for key in ("loss", "accuracy", "test_loss", "test_accuracy", *CLEAN) if key in last},
            **provenance(),
            **fields,
            "steps": last["step"],
            "epochs": last["epoch"],
            "samples": last["samples"],
            "epoch_seconds": self.epoch_seconds,
            "images_per_s": self.images_per_s,
            "time_to_first_step_s": self.first_step_s,
            **({"start_s": self.start_s} if self.start_s else {}),
            "resumed_at": self.resumed_at,
            "train_seconds": self._seconds,
            "history": self.history,
        }
        if self.recorder:
            self.recorder.result(result)
        return result


def _rank_began():
    """When this rank began, or outside a run this process (epoch seconds)."""
    folder = RunFolder.here()
    record = read_json(folder.rank(int(os.environ.get("HOROVOD_RANK", "0")))) if folder else None
    return record["started"] if record else psutil.Process().create_time()


def _began():
    """When this run began, or outside a run this process (epoch seconds)."""
    folder = RunFolder.here()
    began = start_of(folder) if folder else None
    return psutil.Process().create_time() if began is None else began
