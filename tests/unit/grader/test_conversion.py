"""What the checks of a distributed training make of records: ones that are none, and what ranks are handed."""

import json

import pytest

from course.grader import conversion, launches


def note(event, **fields):
    return {"note": {"event": event, **fields}}


def sent(array):
    return note("sent", dtype="float32", values=array.ravel().tolist())


def lost(monkeypatch, reply, ranks=3):
    monkeypatch.setattr(launches, "launch", reply)
    training = conversion.training("mine.py", ranks, seed=1)
    found = set()
    for check in conversion.CHECKS:
        try:
            check(training)
        except AssertionError:
            found.add(check.__name__)
    return found


STEP = {"event": "step", "loss": 1.0, "counted": 1, "weights": {}}
RANK = {"status": 0, "wrote": True}
NOTED = {"ranks": [RANK] * 3, "notes": [[], [], []]}


def noted(*events):
    return NOTED | {"notes": [[{"note": event} for event in events]] * 3}


UNREADABLE = [
    {}, NOTED | {"ranks": [RANK] * 2}, NOTED | {"ranks": 3}, NOTED | {"ranks": [None, 1, "x"]}, NOTED,
    noted({}, {"event": 3}, {"event": [1]}),
    noted(STEP | {"event": "begin"}, STEP),  # weights that are none
    noted({"event": "sent", "dtype": "uint8", "values": [-1]}),
    noted({"event": "error", "message": [1], "line": "x"}),
    NOTED | {"late": True}, {"ended": "it had more than 128 processes and threads"},
    {"missing": "mine.py"}, {"unwritten": "mine.py"},
]  # fmt: skip


def test_what_is_no_record_is_said(monkeypatch):
    for reply in UNREADABLE:
        with pytest.raises(AssertionError, match="mine.py"):
            lost(monkeypatch, lambda request, reply=reply: reply)


def test_a_rank_that_notices_how_another_is_ended_was_late_too(monkeypatch):
    noticed = note("error", type="HorovodInternalError", message="gone", line=3)
    reply = {"late": True, "seconds": 10, "ranks": [RANK | {"status": None}] * 3, "notes": [[], [noticed], []]}
    with pytest.raises(
        AssertionError, match=r"did not end within 10 s \(rank 0 waits after step 0, rank 1 waits after"
    ):
        lost(monkeypatch, lambda request: reply)


def test_what_ranks_are_handed_is_noted_and_nothing_else_is_handed_out():
    desk = launches._Desk(
        [{"given": {"rate": 1}, "samples": ["a", "b"]}, {"given": {"rate": 2}, "samples": ["c", "d"]}]
    )

    def ask(rank, message):
        return desk.serve({"rank": rank, "message": json.dumps(message)})["value"]

    assert ask(1, {"do": "begin"}) == {"rate": 2}
    assert ask(1, {"do": "read", "numbers": [1, 0]}) == ["d", "c"]
    assert ask(0, {"do": "note", "note": {"read": [0]}}) is None
    for wrong in ([2], ["x"], [[0]], [0.0]):
        assert ask(0, {"do": "read", "numbers": wrong}) is None
    assert [ask(0, wrong) for wrong in ({}, [], 1, {"do": "read"}, {"do": "read", "rank": 1})] == [None] * 5
    assert desk.serve({"rank": 0, "message": "[" * 100_000}) == {"value": None}
    assert desk.notes == [[{"note": {"read": [0]}}], [{"read": [1, 0]}]]
