"""Ranks that wait for one another: the report of each mistake names the rank and the line."""

import pytest

from ddl import launch

pytestmark = pytest.mark.slow("source_code/course/multi_gpu/*")


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("uneven", ["rank 0 of 2", "ended with status 0", "still waited for it"]),
        ("rank-0-only", ["time limit"]),
        ("raises", ["rank 1 of 2", "raised ValueError"]),
    ],
)
def test_deadlock_is_reported_with_its_rank(case, words, nothing_left):
    run = launch("waiting_ranks.py", workers=2, case=case, timeout_s=20, check=False, oversubscribe=True)
    assert run.state == "failed"
    assert all(word in run.failure.sentence for word in words), run.failure.sentence
    if case == "uneven":
        assert (run.status, run.failure.others) == (1, "rank 1 lost touch")
        assert "waiting_ranks.py" in run.failure.traceback
    if case == "rank-0-only":
        stacks = "".join((run.folder / f"stack-{rank}.txt").read_text() for rank in range(2))
        assert stacks.count("waiting_ranks.py") >= 2


def test_correct_script_fits_the_weight(nothing_left):
    run = launch("waiting_ranks.py", workers=2, oversubscribe=True)
    assert run.result["weight"] == pytest.approx(3, abs=0.1)
