"""Launches of an attendee's file: each is announced once, while its ranks run."""

from unittest.mock import Mock

import pytest

from course.grader import launches
from course.grader.limits import Limits


@pytest.mark.parametrize("interactive, shown", [(True, 1), (False, 0)])
def test_launch_is_announced_while_its_ranks_run(monkeypatch, interactive, shown):
    monkeypatch.setattr(launches, "is_interactive", lambda: interactive)
    display = Mock()
    monkeypatch.setattr("IPython.display.display", display)
    process = Mock(ended=False)
    process.ask.side_effect = lambda *_: display.return_value.update.call_count or {"ranks": []}
    those = launches.Launches(lambda limits: process, Limits(), launches.announced)
    request = {"do": "launch", "file": "my_training.py", "ranks": 2}
    for _ in range(2):  # the second is known already
        assert those.answer(request, "x = 1")["ranks"] == []
    assert display.call_count == display.return_value.update.call_count == shown
    if shown:
        assert "my_training.py is running on 2 ranks" in display.call_args.args[0].data
