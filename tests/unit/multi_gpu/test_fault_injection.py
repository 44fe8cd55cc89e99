"""Cost of a killed rank, from a run's records."""

import pytest

from course.multi_gpu import fault_injection
from ddl.follow.run import Run
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import append_json_line, write_json

START = {"event": "start", "time": 10.0, "step": 0, "global_batch": 64}


def step(number, time, event="step", **fields):
    return {"event": event, "step": number, "time": time, "images_per_s": 640.0, **fields}


@pytest.fixture
def recorded(tmp_path):
    """Return a function that makes a run of events: of its script, and of the launcher if it was started again."""

    def make(script, restart=None):
        folder = RunFolder(tmp_path / "20261125-120000-0000")
        folder.path.mkdir()
        write_json(folder.job, {"id": folder.path.name, "name": "mine", "created": 0.0, "workers": 2})
        launcher = [{"event": "launched", "time": 9.0}]
        if restart:
            launcher.append({"event": "restarted", "time": restart, "ranks": 2, "reason": "x", "step": 12})
        for path, events in ((folder.launcher, launcher), (folder.events, script)):
            for event in events:
                append_json_line(path, event)
        return Run(folder.path)

    return make


def test_table_shows_the_cost_of_the_first_failure(recorded):
    before = [START, step(1, 11.0), step(10, 12.8), step(10, 12.9, "checkpoint", seconds=0.1), step(12, 13.2)]
    after = [{**START, "time": 16.0, "step": 10}, step(11, 17.0), step(12, 17.1)]
    row = fault_injection.costs([recorded([*before, *after], restart=14.0)]).loc["mine"]
    assert row[["killed at step", "resumed from", "steps twice"]].tolist() == [12, 10, 2]
    assert row["lost_s"] == pytest.approx(3.9) and row["checkpoint_s"] == pytest.approx(0.1)
    assert row["step_s"] == pytest.approx(0.2)  # from step 1 to 10, what was done again left out
