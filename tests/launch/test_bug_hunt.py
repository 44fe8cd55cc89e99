"""The bug hunt on real ranks: lesson 3b's six checks find each case's mistake, and none in the correct script."""

import math

import jupytext
import pytest

from course.multi_gpu import mistakes
from ddl import RunFailed, launch
from ddl.records import stack
from helpers import ROOT

pytestmark = pytest.mark.nightly("source_code/course/multi_gpu/scripts/bug_hunt*", "lessons/3b*")

SYMPTOMS = {
    "none": [],
    "A": ["drifting"],
    "B": ["miscounted"],
    "C": ["shared_samples"],
    "D": ["second_writer"],
    "E": ["began_apart"],
    "F": ["not_scaled"],
    "G": ["began_apart"],
}


def found_in(run):
    """Return which of the checks find a mistake: those that the model answers to questions 5 and 6 define."""
    checks = {"math": math}
    for cell in jupytext.read(ROOT / "lessons" / "3b.Strategies-in-Depth.py").cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") in ("q05_checks", "q06_more_checks"):
            exec(cell.source, checks)
    seen = mistakes.step_records(run)
    names = ("shared_samples", "began_apart", "drifting", "miscounted", "not_scaled", "second_writer")
    return [name for name in names if checks[name](seen)]


@pytest.mark.parametrize("case", SYMPTOMS)
def test_each_case_shows_its_symptom(case, nothing_left):
    run = launch("bug_hunt.py", workers=2, case=case, steps=5, batch=8, oversubscribe=True)
    assert found_in(run) == SYMPTOMS[case]
    seen = mistakes.step_records(run)
    assert [len(rank["steps"]) for rank in seen] == [5, 5]
    result = run.result
    assert result["case"] == case and result["global_batch"] == 16
    assert result["images_per_s"] == pytest.approx(seen[0]["images_per_s"])
    assert run.history["samples"].tolist() == [160 if case == "B" else 80]
    assert (run.folder / "weights.npz").exists()


@pytest.mark.parametrize("keras", [2, 3])
def test_fit_averages_on_keras_2_and_lets_ranks_drift_apart_on_keras_3(keras, nothing_left):
    options = dict(workers=2, keras=keras, steps=5, batch=8, oversubscribe=True)
    if keras == 3 and stack.name() == "default":
        with pytest.raises(RunFailed, match="make setup STACK=next"):
            launch("bug_hunt_fit.py", **options)
        return
    run = launch("bug_hunt_fit.py", **options)
    assert found_in(run) == ([] if keras == 2 else ["drifting"])
    assert run.state == "done" and run.result["keras"].startswith(str(keras))
    (row,) = mistakes.outcomes([run]).to_dict("records")
    assert (row["steps"], row["apart"], row["models"]) == ((5, 0, 1) if keras == 2 else (5, 5, 2))
