"""Whose turn it is on shared cores: first come, first served, and what a dead process held is free."""

import os
import stat

import pytest

from ddl.rank.queue import Ticket


@pytest.fixture
def ticket(tmp_path):
    """Return a function that makes a launch's place in a queue of two cores."""
    made = []

    def make(need, name="ann's run", cores=2):
        made.append(Ticket(tmp_path / "queue", need, name, cores))
        return made[-1]

    yield make
    for each in made:
        each.give_back()


def test_who_waits_is_told_for_what_and_comes_in_order(ticket):
    first, second, third = ticket(2, "ann's “long”"), ticket(2, "bob's run"), ticket(1)
    assert first.take() == ""
    assert second.take() == "waits for 2 of 2 cores; they are with ann's “long”"
    assert third.take() == "waits for 1 of 2 cores, 1 before this one; they are with ann's “long”"
    first.give_back()
    assert third.take().startswith("waits for 1 of 2 cores, 1 before")  # asked first, came last
    assert second.take() == ""
    second.give_back()
    assert third.take() == ""


def test_launches_that_fit_run_side_by_side(ticket):
    first, second, third = ticket(1, "ann's"), ticket(1, "bob's"), ticket(1)
    assert (first.take(), second.take()) == ("", "")
    assert third.take() == "waits for 1 of 2 cores; they are with ann's and bob's"


def test_one_that_needs_more_than_there_is_takes_all(ticket):
    assert ticket(64).take() == ""
    assert ticket(1).take()


def test_one_that_gives_up_lets_the_next_pass(ticket):
    first, second, third = ticket(2), ticket(2), ticket(2)
    first.take()
    second.give_back()
    first.give_back()
    assert third.take() == ""


def test_what_a_process_held_is_free_when_it_has_died(ticket, tmp_path):
    for waits in (False, True):
        if not (pid := os.fork()):
            dying = Ticket(tmp_path / "queue", 2, "dying", 2)
            os._exit(int(not waits and bool(dying.take())))
        assert os.waitpid(pid, 0)[1] == 0
        next_one = ticket(2)
        assert next_one.take() == ""
        next_one.give_back()


def test_the_folder_is_for_everybody_and_nobody_removes_anothers(ticket, tmp_path):
    ticket(1).take()
    mode = stat.S_IMODE((tmp_path / "queue").stat().st_mode)
    assert mode == 0o1777
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "queue").glob("core-*")} == {0o666}
