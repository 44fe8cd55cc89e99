"""A stage for scores: builds without TensorFlow, and runs that end at once, as a test has them end."""

import os
from pathlib import Path

import numpy as np

from course.challenge import attempt, scoring
from course.challenge.build import Built
from course.challenge.journal import sha256
from course.challenge.rules import Refused
from ddl.launcher.run import NoSuchRun
from ddl.records.jsonfiles import append_json_line, write_json
from ddl.records.paths import runs_dir

PICTURES = 1000
SETTINGS = dict(ghost_batch=32, compression="none", precision="float32", parameters=10, prepare=0, finish=0)


class StandInRun:
    """A run that is over, or that an interrupt meets in `wait`; `looks` says how often it is looked at before."""

    def __init__(self, stage, run_id, state, launched):
        self.stage, self.id, self.state, self.launched = stage, run_id, state, launched
        self.folder = runs_dir() / run_id
        self.failure = None
        self.looks = stage.looks
        self.over = False

    def progress(self):
        self.wait()
        self.looks -= 1
        self.over = self.looks < 0
        return self

    def stop(self):
        self.state = "stopped"

    def wait(self, view=None):
        if self.state == "interrupted":
            self.state = "stopped"
            raise KeyboardInterrupt
        return self


class Stage:
    """What launches do: `plan` maps the number of a launch, from 0, to an accuracy or another end of it."""

    def __init__(self, accuracy=0.75):
        self.accuracy, self.plan = accuracy, {}
        self.launches, self.runs, self.builds, self.synced = [], {}, [], []
        self.most = 0  # runs at a time
        self.labels = np.arange(PICTURES) % 10
        self.seconds = {"submission": 8.0, "baseline": 10.0}
        self.samples = 180_224
        self.looks = 0  # of a run that is under way
        self.reason = ""  # that the launcher notes of failed runs

    def set(self, monkeypatch):
        """Put this stage in the place of builds and launches."""
        # What a disk takes tens of milliseconds for; `synced` notes what would have been written.
        monkeypatch.setattr(
            os, "fsync", lambda descriptor: self.synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        )
        replaced = {
            "baseline_seconds": lambda workers, data: self.seconds["baseline"],
            "build": self.build,
            "launch": self.launch,
            "attach": self.attach,
            "labels_of": lambda name, samples: self.labels,
            "pictures_file": lambda name, trial: Path(f"challenge-{name}.npy"),
            "pictures": lambda data_set: "cifar10" if data_set == "auto" else data_set,
            "TARGET": 0.72,
        }
        for name, stand_in in replaced.items():
            for module in (attempt, scoring):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, stand_in)
        return self

    def build(self, path, seeds, into, start=None):
        content = path.read_bytes()
        self.builds.append({"file": path.name, "seeds": list(seeds), "start": start})
        if b"REFUSE" in content:
            raise Refused(f"{path.name}: refused, as the test wants it")
        into.mkdir(parents=True)
        settings = {**SETTINGS, "samples": 180_224}
        described = {"file": sha256(content), "file_name": path.name, "seeds": list(seeds), "settings": settings}
        write_json(into / "built.json", described)
        return Built.at(into)

    def launch(self, script, **options):
        assert script == "train_submission.py"
        number = len(self.launches)
        assert (options["built"] / "built.json").exists()
        self.launches.append(options)
        run_id = f"run-{number}"
        end = self.plan.get(number, self.accuracy)
        if isinstance(end, BaseException):
            raise end
        state, work = end if isinstance(end, tuple) else ("done", None)
        self.most = max(self.most, 1 + sum(not run.over for run in self.runs.values()))
        run = StandInRun(self, run_id, state, options)
        run.folder.mkdir(parents=True)
        if not isinstance(end, tuple):
            self.finish(run, end)
        elif callable(work):
            self.finish(run, 0.75)
            work(run.folder)
        elif work:
            run.failure = work
            if self.reason:
                ended = {"event": "ended", "time": 1.0, "state": "failed", "reason": self.reason}
                append_json_line(run.folder / "launcher.jsonl", ended)
        self.runs[run_id] = run
        return run

    def finish(self, run, accuracy):
        """Leave what a run leaves that got so many pictures right."""
        options = run.launched
        right = round(accuracy * PICTURES)
        given = np.where(np.arange(PICTURES) < right, self.labels, (self.labels + 1) % 10)
        np.save(run.folder / "logits.npy", np.eye(10, dtype=np.float32)[given])
        result = {
            "challenge": {"file": Built.at(options["built"]).file, "role": options["role"]},
            "samples": self.samples,
            "seconds": self.seconds[options["role"]],
            "global_batch": 1024,
            "world": options["workers"],
            "seed": options["seed"],
            "trial": "samples" in options,
            "diverged": False,
            "public_accuracy": accuracy,
            "data": {"name": options["pictures"].stem.partition("-")[2]},
        }
        write_json(run.folder / "result.json", result)

    def attach(self, run_id):
        if run_id not in self.runs:
            raise NoSuchRun(run_id)
        return self.runs[run_id]


class StandInFailure:
    """Why a run failed."""

    def __init__(self, sentence):
        self.sentence, self.last_words = sentence, ()
