"""Schedules of pipelines: small tables by hand, the paper's bubble, and what is no schedule."""

import pytest

from course import pipeline
from ddl.errors import InputError


def written(schedule):
    """A schedule as words: a row for each stage."""
    return [" ".join("--" if cell is None else f"{cell[0]}{cell[1]}" for cell in row) for row in schedule]


def read(*rows):
    cells = [row.split() for row in rows]
    return [[None if cell == "--" else (cell[0], int(cell[1:])) for cell in row] for row in cells]


def test_small_tables():
    assert written(pipeline.gpipe(2, 2)) == ["F0 F1 -- -- B0 B1", "-- F0 F1 B0 B1 --"]
    assert written(pipeline.one_f_one_b(2, 3)) == ["F0 F1 -- B0 F2 B1 -- B2", "-- F0 B0 F1 B1 F2 B2 --"]
    assert written(pipeline.one_f_one_b(3, 1)) == ["F0 -- -- -- -- B0", "-- F0 -- -- B0 --", "-- -- F0 B0 -- --"]


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (1, 4), (2, 1), (3, 5), (4, 8), (5, 3)])
def test_both_schedules_are_valid_and_have_the_bubble_of_the_paper(stages, microbatches):
    share = (stages - 1) / (microbatches + stages - 1)
    one_after_one = pipeline.one_f_one_b(stages, microbatches)
    for schedule in (pipeline.gpipe(stages, microbatches), one_after_one):
        assert pipeline.problem(schedule, microbatches) == ""
        assert pipeline.bubble(schedule) == pytest.approx(share)
        assert pipeline.bubble(schedule, backward=2) == pytest.approx(share)  # no rank waits for the end of a cycle
        assert {len(row) for row in schedule} == {2 * (microbatches + stages - 1)}
    assert pipeline.alive(pipeline.gpipe(stages, microbatches)) == [microbatches] * stages
    assert pipeline.alive(one_after_one) == [min(stages - stage, microbatches) for stage in range(stages)]


@pytest.mark.parametrize(("ranks", "microbatches", "chunks"), [(2, 2, 2), (2, 8, 2), (4, 8, 4), (3, 6, 2), (1, 3, 2)])
def test_interleaved_schedule_is_valid_and_divides_the_bubble(ranks, microbatches, chunks):
    schedule = pipeline.one_f_one_b(ranks, microbatches, chunks)
    assert pipeline.problem(schedule, microbatches) == ""
    assert pipeline.bubble(schedule) == pytest.approx((ranks - 1) / (chunks * microbatches + ranks - 1))
    assert pipeline.chunks(schedule) == chunks
    ahead = [2 * (ranks - rank - 1) + (chunks - 1) * ranks + 1 for rank in range(ranks)]
    assert pipeline.alive(schedule) == [min(each, chunks * microbatches) / chunks for each in ahead]


def test_interleaving_needs_whole_rounds_of_microbatches():
    with pytest.raises(InputError, match="a multiple of 2"):
        pipeline.one_f_one_b(2, 3, 2)


def test_stages_that_wait_for_one_another_are_refused():
    for orders, waiting in (
        (["F0 F1 B1 B0", "F1 B0 F0 B1"], "cycle 3.*stage 0 for .'B', 1.*stage 1 for .'B', 0"),
        (["F0", "F0 F1"], "cycle 2.*stage 1 for .'F', 1"),
    ):
        with pytest.raises(InputError, match=waiting):
            pipeline.table(read(*orders))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (["F0 B0", "-- F0 B0"], "its rows are not equally long"),
        (["F0 -- --"], "stage 0 never does B0"),
        (["F0 -- -- B0", "F0 -- B0 --"], "stage 1 does F0 in cycle 0, before stage 0 has done F0"),
        (["F0 -- B0 --", "-- F0 B0 --"], "stage 0 does B0 in cycle 2, before stage 1 has done B0"),
        (["F0 B0 F1 B1"], "it has more than 1 microbatches"),
        (["F0 -- -- B0", "-- F0 B0 --"], ""),
    ],
)
def test_what_is_wrong_with_a_schedule_is_said(rows, sentence):
    assert pipeline.problem(read(*rows), 1) == sentence
