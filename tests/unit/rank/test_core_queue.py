"""Who is next on shared cores: first come, first served, and what a dead process held is free."""

import os

import pytest

from ddl.rank.core_queue import Ticket


@pytest.fixture
def ticket(tmp_path):
    """Return a function that makes a launch's place in a queue of two cores."""
    made = []

    def make(need, name="ann's run", cores=2):
        made.append(Ticket(tmp_path / "queue", need, name, cores))
        return made[-1]

    yield make
    for each in made:
        if each._file.exists():
            each.give_back()


def test_launches_wait_in_order_are_told_for_what_and_run_side_by_side_where_they_fit(ticket):
    first, second, third = ticket(2, "ann's “long”"), ticket(1, "bob's run"), ticket(1, "cy's")
    assert first.waits_for() == ""
    assert second.waits_for() == "waiting for 1 of 2 cores; used by ann's “long”"
    assert third.waits_for() == "waiting for 1 of 2 cores, behind 1 other; used by ann's “long”"
    first.give_back()
    assert (second.waits_for(), third.waits_for()) == ("", "")
    fourth, fifth = ticket(64), ticket(1)
    assert fourth.waits_for() == "waiting for 2 of 2 cores; used by bob's run and cy's"  # all that there are
    third.give_back()
    assert fifth.waits_for().startswith(
        "waiting for 1 of 2 cores, behind 1 other"
    )  # a core is free, and another came first
    fourth.give_back()
    assert fifth.waits_for() == ""


def test_what_a_process_held_is_free_when_it_has_died(ticket, tmp_path):
    child = os.fork()
    if not child:
        os._exit(bool(Ticket(tmp_path / "queue", 2, "dying", 2).waits_for()))
    assert os.waitpid(child, 0)[1] == 0
    assert ticket(2).waits_for() == ""
    assert len(list((tmp_path / "queue").iterdir())) == 1
