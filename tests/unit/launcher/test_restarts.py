"""Whether a run starts again after a failure, and what a restart has cost."""

import pytest

from ddl.launcher.commands import OneHostCommand
from ddl.launcher.restarts import changes_of, decide, last_start, notes_of, ranks_of, restarts_of
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import append_json_line, write_json


def step(number, time, event="step"):
    return {"event": event, "step": number, "time": time}


def exits(time, rank=1, code=137):
    return {"event": "rank_exit", "rank": rank, "code": code, "asked": "", "time": time}


def restarted(time, ranks=2, step=None, rank=1):
    cause = [rank, "SIGKILL", ""]
    return {"event": "restarted", "time": time, "ranks": ranks, "reason": "x", "cause": cause, "step": step}


@pytest.fixture
def decided(tmp_path):
    """Return a function that decides after some events of the launcher and of the script."""

    def decide_after(launcher, script=(), ranks=2, places=None, **options):
        folder = RunFolder(tmp_path)
        write_json(folder.job, {"id": "r", "created": 0.0, "workers": ranks})
        for path, events in ((folder.launcher, launcher), (folder.events, script)):
            for event in events:
                append_json_line(path, event)
        command = OneHostCommand(processes=ranks, command=("x",), **{"max_restarts": 3, **options})
        return decide(folder, command, (), ranks, ranks if places is None else places)

    return decide_after


LAUNCHED = {"event": "launched", "time": 1.0}


def test_a_killed_rank_starts_all_again_and_the_record_says_why_and_where(decided):
    again = decided([LAUNCHED, exits(9.0)], [step(0, 2.0, "start"), step(1, 3.0), step(25, 8.0)])
    assert again["ranks"] == 2 and again["step"] == 25 and again["cause"] == [1, "SIGKILL", ""]
    assert "rank 1 of 2 was killed by SIGKILL" in again["reason"]


@pytest.mark.parametrize(
    "launcher, script, options, why",
    [
        ([LAUNCHED, exits(9.0)], [], {"max_restarts": 0}, ""),
        ([LAUNCHED, restarted(5.0, step=3), exits(9.0)], [step(40, 8.0)], {"max_restarts": 1}, "1 time, as often"),
        ([LAUNCHED, restarted(5.0, step=25), exits(9.0)], [step(25, 8.0)], {}, "failed at step 25 twice"),
        ([LAUNCHED, restarted(5.0), exits(9.0)], [], {}, "failed before its first step twice"),
        # The same step, as exactly as steps are recorded.
        ([LAUNCHED, restarted(5.0, step=25), exits(9.0)], [step(24, 7.0), step(28, 8.0)], {}, "at step 28 twice"),
        ([LAUNCHED, exits(9.0)], [step(25, 8.0)], {"places": 1}, "room for 1 rank only, and min_workers says 2"),
    ],
)
def test_a_run_that_is_not_started_again_says_why(decided, launcher, script, options, why):
    again = decided(launcher, script, **options)
    assert list(again) == ["no_restart"] and why in again["no_restart"] and bool(why) == bool(again["no_restart"])


@pytest.mark.parametrize(
    "before, script, options, ranks",
    [
        (restarted(5.0, step=26), [step(25, 8.0)], {}, 2),  # another step
        (restarted(5.0, step=25, rank=0), [step(25, 8.0)], {}, 2),  # another rank
        # One that fails before it trains has lost its place, where there may be fewer.
        (restarted(5.0, ranks=4, step=25), [], {"ranks": 4, "min_workers": 1}, 3),
        (restarted(5.0, ranks=4, step=25), [], {"ranks": 4, "min_workers": 4}, 4),
        (restarted(5.0, ranks=4, step=3), [step(25, 8.0)], {"ranks": 4, "places": 2, "min_workers": 1}, 2),
    ],
)
def test_another_failure_starts_as_many_ranks_as_have_a_place(decided, before, script, options, ranks):
    assert decided([LAUNCHED, before, exits(9.0)], script, **options)["ranks"] == ranks


def test_a_line_that_was_pasted_has_no_job_and_still_says_who_failed(tmp_path):
    folder = RunFolder(tmp_path)
    append_json_line(folder.launcher, LAUNCHED)
    command = OneHostCommand(processes=2, command=("x",), max_restarts=1)
    again = decide(folder, command, [exits(9.0), exits(9.5, rank=0, code=1)], 2, 2)
    assert again["cause"] == [1, "SIGKILL", ""]


def test_what_a_restart_cost_is_the_time_until_its_step_was_reached_again():
    script = [
        *(step(0, 1.0, "start"), step(10, 2.0), step(25, 5.0)),
        *(step(20, 9.0, "start"), step(21, 10.0), step(31, 12.0)),
    ]
    launcher = [LAUNCHED, exits(6.0), restarted(7.0, ranks=1, step=25)]
    (restart,) = restarts_of(launcher, script)
    assert (restart.resumed_at, restart.repeated, restart.ranks) == (20, 5, 1)
    assert restart.lost_s == pytest.approx(10.0 + 2.0 * 4 / 10 - 5.0)  # step 25 lies between two that were recorded
    early = restarts_of(launcher, script[:4])[0]
    assert (early.resumed_at, early.lost_s) == (20, None)
    assert [len(list(notes_of(each))) for each in ([restart], [early])] == [2, 1]
    assert "5 steps done twice, 5.8 s lost until step 25" in list(notes_of([restart]))[1]


def test_a_world_that_changes_is_told_and_counts_from_then_on():
    worlds = [{"event": "ranks", "time": time, "ranks": ranks} for time, ranks in ((2.0, 1), (4.5, 3), (6.0, 2))]
    wrong, right = ({"event": "discovery", "time": 7.0, "problem": text} for text in ("no hosts", ""))
    launcher = [LAUNCHED, *worlds[:2], exits(5.0), *worlds[2:]]
    assert ranks_of(launcher) == 2 and last_start(launcher) == worlds[2:]
    told = list(changes_of([*launcher, worlds[-1], wrong]))
    assert told == [
        "it grew from 1 to 3 ranks after 3.5 s",
        "it shrank from 3 to 2 ranks after 5.0 s",
        "it changed ranks, and still has 2, after 5.0 s",
        "no hosts",
    ]
    assert len(list(changes_of([*launcher, wrong, right]))) == 2
