"""A template that is kept for many runs ends with them, and no other does."""

import pytest

from ddl.launcher import warm


@pytest.mark.parametrize(
    "before, after, ended",
    [
        ([], [(1, True)], {1}),
        ([(1, True)], [(1, True)], set()),  # it was there, and stays
        ([(1, False)], [(1, False), (2, True), (3, False)], {2}),  # somebody else's began meanwhile
        ([], [], set()),  # there were enough already, or it failed
    ],
)
def test_what_was_started_for_runs_ends_with_them(monkeypatch, before, after, ended):
    answers = [[{"pid": pid, "here": here} for pid, here in found] for found in (before, after)]
    calls = []
    monkeypatch.setattr(warm, "running", lambda: answers.pop(0))
    monkeypatch.setattr(warm, "ensure", lambda: calls.append("ensure"))
    monkeypatch.setattr(warm, "stop", lambda pids: calls.append(pids))
    with pytest.raises(KeyboardInterrupt), warm.kept():
        calls.append("runs")
        raise KeyboardInterrupt
    assert calls == ["ensure", "runs", ended]
