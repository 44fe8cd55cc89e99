"""Whose turn it is on shared cores: first come, first served, and what a dead process held is free."""

import os
import stat

import pytest

from ddl.rank.turn import Turn


@pytest.fixture
def turn(tmp_path):
    """Return a function that makes a launch's place in a queue of two cores."""
    made = []

    def make(need, name="ann's run", cores=2):
        made.append(Turn(tmp_path / "queue", need, name, cores))
        return made[-1]

    yield make
    for each in made:
        each.leave()


def test_who_waits_is_told_for_what_and_comes_in_order(turn):
    first, second, third = turn(2, "ann's “long”"), turn(2, "bob's run"), turn(1)
    assert first.take() == ""
    assert second.take() == "waits for 2 of 2 cores; they are with ann's “long”"
    assert third.take() == "waits for 1 of 2 cores, 1 before this one; they are with ann's “long”"
    first.leave()
    assert third.take().startswith("waits for 1 of 2 cores, 1 before")  # asked first, came last
    assert second.take() == ""
    second.leave()
    assert third.take() == ""


def test_launches_that_fit_run_side_by_side(turn):
    first, second, third = turn(1, "ann's"), turn(1, "bob's"), turn(1)
    assert (first.take(), second.take()) == ("", "")
    assert third.take() == "waits for 1 of 2 cores; they are with ann's and bob's"


def test_one_that_needs_more_than_there_is_takes_all(turn):
    assert turn(64).take() == ""
    assert turn(1).take()


def test_one_that_gives_up_lets_the_next_pass(turn):
    first, second, third = turn(2), turn(2), turn(2)
    first.take()
    second.leave()
    first.leave()
    assert third.take() == ""


def test_what_a_process_held_is_free_when_it_has_died(turn, tmp_path):
    for waits in (False, True):
        if not (pid := os.fork()):
            dying = Turn(tmp_path / "queue", 2, "dying", 2)
            os._exit(int(not waits and bool(dying.take())))
        assert os.waitpid(pid, 0)[1] == 0
        next_one = turn(2)
        assert next_one.take() == ""
        next_one.leave()


def test_the_folder_is_for_everybody_and_nobody_removes_anothers(turn, tmp_path):
    turn(1).take()
    mode = stat.S_IMODE((tmp_path / "queue").stat().st_mode)
    assert mode == 0o1777
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "queue").glob("core-*")} == {0o666}
