"""The bug hunt on real ranks: each case shows its own symptom, the correct script none."""

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("horovod.tensorflow")

from ddl import launch
from ddl.analysis import mistakes

pytestmark = pytest.mark.slow

SYMPTOMS = {
    "none": [],
    "A": ["ranks drift apart"],
    "B": ["throughput miscounted"],
    "C": ["ranks share samples"],
    "D": ["more than rank 0 writes"],
    "E": ["ranks begin differently"],
    "F": ["learning rate not scaled"],
}


@pytest.mark.parametrize("case", SYMPTOMS)
def test_each_case_has_its_own_symptom(case, nothing_left):
    run = launch("bug_hunt.py", workers=2, case=case, steps=5, batch=8, oversubscribe=True)
    assert mistakes.examine(run).found == SYMPTOMS[case]
    seen = mistakes.witnesses(run)
    assert [len(rank["steps"]) for rank in seen] == [5, 5]
    result = run.result
    assert result["case"] == case and result["global_batch"] == 16
    assert result["images_per_s"] == pytest.approx(seen[0]["images_per_s"])
    assert run.history["samples"].tolist() == [160 if case == "B" else 80]
    assert (run.folder / "weights.npz").exists()
    nothing_left(run)


def test_one_rank_passes_too():
    run = launch("bug_hunt.py", workers=1, steps=3)
    assert mistakes.examine(run).found == [] and run.result["ranks"] == 1
