"""Scores: seeds first, none left out, and no way to draw another."""

import re
import secrets
from unittest import mock

import numpy as np
import pytest

from course.challenge import attempt, scoring
from course.challenge.journal import Busy, Journal, journals
from course.challenge.rules import Refused
from course.challenge.scoring import ScoreInterrupted
from ddl.errors import CourseError, InputError
from ddl.records.folder import StorageError
from ddl.records.jsonfiles import DamagedFile, read_json, write_json
from ddl.records.paths import runs_dir
from stage import StandInFailure


def score(path, **options):
    """Score a file without the baseline beside it, quietly, unless told otherwise."""
    return scoring.score(path, **{"beside": False, "progress": str, **options})


def seeds_of(kept):
    return [(entry["role"], entry["pair"], entry["seed"], entry["secret"]) for look in kept["looks"] for entry in look]


def test_a_score_runs_five_pairs_in_turns(stage, submission, kept):
    said = []
    found = score(submission(), beside=True, progress=said.append)
    roles = [options["role"] for options in stage.launches]
    assert roles == ["submission", "baseline", "baseline", "submission"] * 2 + ["submission", "baseline"]
    pairs = [(options["seed"], options["secret"]) for options in stage.launches]
    assert pairs[::2] == pairs[1::2] and len(set(pairs)) == 5
    assert found.accuracies == (0.75,) * 5 and found.ratios == (0.8,) * 5 and found.samples == 180_224
    assert found.counts
    assert said[0] == "run 1 of 10: mine.py, seeds 1" and said[-1] == "run 10 of 10: the baseline, seeds 5"
    assert [entry["run"] for entry in kept()["looks"][0]] == [f"run-{number}" for number in range(10)]


def test_seeds_are_on_the_disk_before_the_file_is_built_or_run(stage, submission, kept, monkeypatch):
    seen = []

    def noting(action):
        def noted(*arguments, **options):
            seen.append((seeds_of(kept()), list(stage.synced[:2])))
            return action(*arguments, **options)

        return noted

    for name in ("build", "launch"):
        monkeypatch.setattr(scoring, name, noting(getattr(stage, name)))
    score(submission(), beside=True)
    assert len(seen) == 12 and all(seeds == seeds_of(kept()) for seeds, _ in seen)
    written, folder = seen[0][1]
    assert "journal.json" in written and folder == str(journals()[0].folder)


def test_the_same_program_with_another_comment_is_no_first_look(stage, submission):
    first = submission('"""Mine."""\nPEAK = 1.5  # a try\n')
    assert score(first).needed == 0.01
    again = submission("PEAK = 1.5\n\n# another comment\n", name="other.py")
    assert score(again).needed == 0.005
    other = score(submission("PEAK = 1.6\n", name="third.py"))
    assert (other.needed, other.n, len(journals())) == (0.01, 5, 3)
    assert score(first, again=True).needed == 0.0025  # the third look at that program


def test_seeds_are_from_the_systems_secrets_and_not_from_time_or_environment(stage, submission, monkeypatch):
    drawn = iter(range(1, 100))
    monkeypatch.setattr(secrets, "randbits", lambda bits: next(drawn))
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    score(submission())
    assert [(options["seed"], options["secret"]) for options in stage.launches] == [(n, n + 1) for n in range(1, 10, 2)]
    assert stage.builds[0]["seeds"] == [1, 3, 5, 7, 9]  # the builder never gets the secret ones


def test_a_file_that_does_not_end_costs_one_run_and_no_hour(stage, submission):
    stage.reason = "timeout"
    stage.plan[1] = ("failed", StandInFailure("it ran past its limit"))
    found = score(submission())
    assert [options["timeout_s"] for options in stage.launches] == [120 + 10 * 10.0] * 2  # of the baseline's 10 s
    assert found.accuracies == (0.75, 0.1, 0.1, 0.1, 0.1) and not found.left and not found.counts


def result_with(**changes):
    def edit(folder):
        write_json(folder / "result.json", {**read_json(folder / "result.json"), **changes})

    return edit


def result_of_another_run(folder):
    (folder / "result.json").write_text((runs_dir() / "run-0" / "result.json").read_text())


def logits_of(values):
    return lambda folder: np.save(folder / "logits.npy", values)


CRASHES = {
    "labels of private pictures": (result_with(public_accuracy=0.6), "it has labels of private images"),
    "no result": (lambda folder: (folder / "result.json").unlink(), "without a result"),
    "no logits": (lambda folder: (folder / "logits.npy").unlink(), "without logits"),
    "the result of another run": (result_of_another_run, "belongs to another run: seed differs"),
    "no time": (result_with(seconds=0.0), ""),
    "a negative time": (result_with(seconds=-3.0), ""),
    "an unknown time": (result_with(seconds=None), ""),
    "no samples": (result_with(samples=0), ""),
    "a trial": (result_with(trial=True), ""),
    "divergence": (result_with(diverged=True), ""),
    "fewer logits": (logits_of(np.zeros((999, 10), np.float32)), r"float32 \(1000, 10\) is needed"),
    "more classes": (logits_of(np.zeros((1000, 11), np.float16)), "float16"),
    "whole numbers": (logits_of(np.zeros((1000, 10), np.int32)), "int32"),
    "a huge file": (logits_of(np.zeros((5000, 10), np.float32)), "larger than logits"),
    "pickled": (logits_of(np.array([{"accuracy": 1.0}], object)), "cannot be read"),
}


def test_what_no_whole_run_leaves_counts_as_a_crash(stage, submission):
    stage.plan = {number: ("done", edit) for number, (edit, _) in enumerate(CRASHES.values(), start=1)}
    found = score(submission(), n=1 + len(CRASHES))
    assert found.accuracies == (0.75, *[0.1] * len(CRASHES))
    for crash, (_, words) in zip(found.crashes, CRASHES.values(), strict=True):
        assert re.search(words, crash)


def test_a_crash_counts_as_chance_and_is_not_tried_again(stage, submission):
    stage.plan[1] = ("failed", StandInFailure("killed"))  # a baseline: it costs its pair and nothing else
    stage.plan[3] = ("failed", StandInFailure("rank 1 ended with RuntimeError: unlucky seed"))
    path = submission()
    found = score(path, beside=True)
    assert found.accuracies == (0.75, 0.1, 0.75, 0.75, 0.75) and len(found.ratios) == 3 and not found.counts
    assert "unlucky seed" in found.crashes[0] and "counts as chance" in repr(found)
    assert score(path) == found and len(stage.launches) == 10


def test_scoring_again_adds_new_seeds_and_pools_all_runs(stage, submission, kept):
    path = submission()
    stage.plan = dict.fromkeys(range(5), 0.6)
    score(path)
    first = seeds_of(kept())
    found = score(path, again=True)
    assert found.accuracies == (0.6,) * 5 + (0.75,) * 5 and found.looks == 2 and not found.counts
    assert found.ratios == ()  # no baseline ran beside it
    assert seeds_of(kept())[:5] == first and len(set(seeds_of(kept()))) == 10


@pytest.mark.parametrize("number", [0, 4])
def test_an_interrupt_loses_nothing_and_draws_nothing(stage, submission, kept, number):
    path = submission()
    stage.plan[number] = ("interrupted", None)
    with pytest.raises(ScoreInterrupted, match=f"{5 - number} of 5 runs still to come"):
        score(path)
    before = seeds_of(kept())
    said = []
    found = score(path, progress=said.append)
    assert said[0] == f"mine.py: going on with {5 - number} of 5 runs"
    assert seeds_of(kept()) == before and found.n == 5 and len(stage.launches) == 6
    assert stage.launches[number]["seed"] == stage.launches[number + 1]["seed"]
    assert kept()["looks"][0][number]["interrupted"] == [f"run-{number}"]


class Killed(BaseException):
    """The process ends here, and nothing after it happens."""


@pytest.mark.parametrize("moment", range(11))
def test_a_kill_at_any_write_of_the_journal_draws_no_second_seed(stage, submission, kept, monkeypatch, moment):
    """Whatever write is the last one: what follows goes on with the seeds that are noted, and runs each to its end."""
    writes, write = iter(range(moment)), Journal.write

    def dying(self):
        if next(writes, None) is None:
            raise Killed
        write(self)

    path = submission()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", dying)
        with pytest.raises(Killed):
            score(path)
    before = seeds_of(kept()) if moment else None
    found = score(path)
    assert found.n == 5 and found.left == 0
    assert before in (None, seeds_of(kept()))
    assert {options["seed"] for options in stage.launches} == {seed for _, _, seed, _ in seeds_of(kept())}


def test_a_run_that_had_ended_when_its_parent_was_killed_is_judged_not_run_again(stage, submission, kept, monkeypatch):
    path = submission()
    with monkeypatch.context() as patch:
        patch.setattr(scoring, "settle", mock.Mock(side_effect=Killed))
        with pytest.raises(Killed):
            score(path)
    assert stage.launches and score(path).n == 5
    assert len(stage.launches) == 5


def test_what_the_machine_does_is_not_counted_against_a_file(stage, submission):
    path = submission()
    stage.plan[0] = ("failed", StandInFailure("horovodrun could not be started"))
    stage.reason = "launch"
    stage.plan[1] = CourseError("the site is full")
    for words in ("not the file's fault: score it again", "the site is full"):
        with pytest.raises(CourseError, match=words):
            score(path)
    found = score(path)
    assert found.accuracies == (0.75,) * 5 and len({options["seed"] for options in stage.launches[:3]}) == 1


def test_a_refused_file_is_refused_each_time_with_the_same_seeds(stage, submission, kept):
    path = submission("REFUSE = 1\n")
    for _ in range(2):
        with pytest.raises(Refused, match="refused, as the test wants it"):
            score(path)
    first, second = stage.builds
    assert first["seeds"] == second["seeds"] and len(kept()["looks"]) == 1 and not stage.launches


def test_a_journal_that_is_damaged_is_said_and_no_seed_is_drawn(stage, submission):
    path = submission()
    score(path)
    (journal,) = runs_dir().glob("challenge/*/journal.json")
    journal.write_text(journal.read_text()[:-40])
    with pytest.raises(DamagedFile, match=re.escape(str(journal))):
        score(path)
    assert len(stage.launches) == 5


def test_what_cannot_be_scored_is_refused_before_anything_is_drawn(stage, submission):
    path = submission()
    for n in (0, 4, 5.0, True):
        with pytest.raises(InputError, match="at least 5 runs"):
            score(path, n=n)
    journal = Journal.of(path.read_bytes(), "mine.py", "cifar10", 2)
    with journal.alone(), pytest.raises(Busy, match="by another process"):
        score(path)
    assert not journals()
    score(path)
    with pytest.raises(InputError, match="has been scored with workers=2"):
        score(path, workers=4, again=True)


def test_a_trial_and_generated_pictures_are_kept_apart_and_count_for_nothing(stage, submission):
    path = submission()
    tried = score(path, n=1, samples=2048, private_samples=1000)
    assert stage.launches[0]["samples"] == 2048 and tried.trial and not tried.counts
    assert "which have no board: `ddl data fetch cifar10`" in repr(score(path, data_set="synthetic"))
    assert stage.launches[1]["pictures"].name == "challenge-synthetic.npy"
    assert (score(path).n, len(stage.launches)) == (5, 11)


def test_logits_that_are_no_answer_score_as_none_whatever_judgement_lies_there(stage, submission):
    def leaving(value):
        def edit(folder):
            (folder / "judged.json").write_text('{"accuracy": 0.99, "samples": 1024, "seconds": 0.1}')
            np.save(folder / "logits.npy", np.full((1000, 10), value, np.float32))

        return edit

    values = {np.nan: 0.0, np.inf: 0.0, -np.inf: 0.0, 0: 0.1, 1e-45: 0.1}
    stage.plan = {number: ("done", leaving(value)) for number, value in enumerate(values)}
    assert score(submission()).accuracies == tuple(values.values())
    assert '"accuracy": 0.1' in (runs_dir() / "run-3" / "judged.json").read_text()


def test_one_run_says_what_it_would_score_on_public_pictures(stage, submission, monkeypatch):
    def finished(script, **options):
        run = stage.launch(script, **options)
        run.result = read_json(run.folder / "result.json")
        return run

    stage.accuracy = 0.7
    monkeypatch.setattr(attempt, "launch", finished)
    found = attempt.run(submission(), seed=7)
    assert stage.launches[0]["seed"] == 7 and stage.builds[0]["seeds"] == [7]
    assert repr(found).splitlines()[0] == (
        "mine.py, one run: 70.0% of the public images, 2.0 points below the target of 72.0%"
    )
    assert found.ratio is None and not list((runs_dir() / "challenge").glob("*/journal.json"))


def test_a_file_is_found_by_its_path_or_as_one_of_the_courses(submission, tmp_path):
    assert attempt.read(submission("X = 1\n")) == (b"X = 1\n", "mine.py")
    content, name = attempt.read("baseline.py")
    assert name == "baseline.py" and b"SAMPLES" in content
    with pytest.raises(InputError, match=r"is a folder: a submission is one Python file \(in it are: mine.py\)"):
        attempt.read(tmp_path)


@pytest.mark.parametrize(("module", "run"), [(scoring, score), (attempt, attempt.run)], ids=["score", "run"])
def test_without_the_data_no_seed_is_drawn(stage, submission, monkeypatch, module, run):
    monkeypatch.setattr(module, "pictures_file", mock.Mock(side_effect=InputError("CIFAR-10 is not there")))
    with pytest.raises(InputError, match="CIFAR-10 is not there"):
        run(submission())
    assert not journals() and not stage.builds


def test_a_full_disk_is_said_in_one_sentence_and_the_score_goes_on_later(stage, submission, kept, monkeypatch):
    with monkeypatch.context() as patch:
        full = OSError(28, "No space left on device", "built.json")
        patch.setattr(scoring, "build", mock.Mock(side_effect=full))
        with pytest.raises(StorageError, match=r"^built.json cannot be written: No space left on device. Free some"):
            score(submission())
    before = seeds_of(kept())
    assert score(submission()).counts and seeds_of(kept()) == before
