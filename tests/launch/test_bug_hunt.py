"""The bug hunt on real ranks: each case shows its symptom, the correct script none."""

import pytest

from course.multi_gpu import mistakes
from ddl import RunFailed, launch
from ddl.records import stack

pytestmark = pytest.mark.nightly("source_code/course/multi_gpu/scripts/bug_hunt*")

SYMPTOMS = {
    "none": [],
    "A": ["ranks drift apart"],
    "B": ["throughput miscounted"],
    "C": ["ranks share samples"],
    "D": ["more than rank 0 writes"],
    "E": ["ranks begin differently"],
    "F": ["learning rate not scaled"],
    "G": ["ranks begin differently"],
}


def found_in(run):
    table = mistakes.examine(run)
    return table["mistake"][table["found"]].tolist()


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
    assert found_in(run) == ([] if keras == 2 else ["ranks drift apart"])
    assert run.state == "done" and run.result["keras"].startswith(str(keras))
    (row,) = mistakes.outcomes([run]).to_dict("records")
    assert (row["steps"], row["apart"], row["models"]) == ((5, 0, 1) if keras == 2 else (5, 5, 2))
