"""Whether a run is restarted after a failure, and what a restart has cost."""

import pytest

from ddl.follow.restarts import changes_of, decide, restarts_of
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import append_json_line, write_json


def step(number, time, event="step"):
    return {"event": event, "step": number, "time": time}


def exits(time, rank=1, code=137):
    return {"event": "rank_exit", "rank": rank, "code": code, "asked": "", "time": time}


def restarted(time, step=None, rank=1):
    return {"event": "restarted", "time": time, "reason": "x", "cause": [rank, "SIGKILL", ""], "step": step}


@pytest.fixture
def decided(tmp_path):
    """Return a function that decides after some events of the launcher and of the script."""

    def decide_after(launcher, script=(), max_restarts=3):
        folder = RunFolder(tmp_path)
        write_json(folder.job, {"id": "r", "created": 0.0, "workers": 2})
        for path, events in ((folder.launcher, launcher), (folder.events, script)):
            for event in events:
                append_json_line(path, event)
        return decide(folder, max_restarts)

    return decide_after


LAUNCHED = {"event": "launched", "time": 1.0}


def test_killed_rank_restarts_the_run(decided):
    again = decided([LAUNCHED, exits(9.0)], [step(0, 2.0, "start"), step(1, 3.0), step(25, 8.0)])
    assert again["step"] == 25 and again["cause"] == [1, "SIGKILL", ""]
    assert "rank 1 of 2 was killed by SIGKILL" in again["reason"]


@pytest.mark.parametrize(
    "launcher, script, options, why",
    [
        ([LAUNCHED, exits(9.0)], [], {"max_restarts": 0}, ""),
        ([LAUNCHED, restarted(5.0, step=3), exits(9.0)], [step(40, 8.0)], {"max_restarts": 1}, "max_restarts"),
        ([LAUNCHED, restarted(5.0, step=25), exits(9.0)], [step(25, 8.0)], {}, "failed at step 25 twice"),
        ([LAUNCHED, restarted(5.0), exits(9.0)], [], {}, "failed before its first step twice"),
        # The same step, within the distance between recorded steps.
        ([LAUNCHED, restarted(5.0, step=25), exits(9.0)], [step(24, 7.0), step(28, 8.0)], {}, "at step 28 twice"),
    ],
)
def test_run_that_is_not_restarted_says_why(decided, launcher, script, options, why):
    again = decided(launcher, script, **options)
    assert list(again) == ["no_restart"] and why in again["no_restart"] and bool(why) == bool(again["no_restart"])


@pytest.mark.parametrize(
    ("exit", "why"), [({"code": 137, "why": ""}, "was killed by SIGKILL"), ({"code": 1, "why": "ValueError"}, "raised")]
)
def test_change_of_an_elastic_run_has_its_cause(exit, why):
    worlds = [{"event": "ranks", "time": time, "ranks": ranks} for time, ranks in ((2.0, 2), (9.0, 1), (12.0, 2))]
    ended = [{**exits(8.0), **exit}, exits(8.1, rank=0, code=134)]
    shrank, grew = changes_of([LAUNCHED, worlds[0], *ended, *worlds[1:]])
    assert f"because rank 1 {why}" in shrank and "because" not in grew


def test_cost_of_a_restart_is_not_recomputed_after_the_next():
    launcher = [LAUNCHED, restarted(10.0, step=20), restarted(15.0, step=18)]
    first = [step(20, 9.0), step(10, 11.0, "start"), step(18, 14.0)]
    third = [step(10, 16.0, "start"), step(18, 17.0), step(20, 18.0)]
    before, after = restarts_of(launcher, first + third)
    assert (before.resumed_at, before.lost_s, after.lost_s) == (10, None, 3.0)
    (before, after) = restarts_of(launcher, [step(20, 9.0), *third])
    assert before.resumed_at is None
