"""The first difference between ranks or runs, from the checksums that each rank recorded."""

import numpy as np
import pytest

from ddl import Recorder, attach
from ddl.cli import main
from ddl.errors import InputError
from ddl.records.jsonfiles import write_json


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Return a function that records a run of two ranks, and gives it: arrays by step, for each rank."""
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path))

    def record(name, *ranks):
        folder = tmp_path / name
        folder.mkdir()
        write_json(folder / "job.json", {"id": name, "created": 1.0, "workers": len(ranks)})
        monkeypatch.setenv("DDL_RUN_DIR", str(folder))
        for rank, steps in enumerate(ranks):
            monkeypatch.setenv("RANK", str(rank))
            for step, arrays in steps.items():
                Recorder().checksums(step, arrays)
        return attach(name)

    return record


def steps(**changed):
    """Two steps with two arrays each; `changed` ones by name and step, such as bias2=3."""
    return {
        step: {name: np.full((2, 3), changed.get(f"{name}{step}", step), np.float32) for name in ("kernel", "bias")}
        for step in (1, 2)
    }


def test_first_step_then_rank_then_array_is_named(recorded, capsys):
    alike = recorded("alike", steps(), steps(), steps())
    apart = recorded("apart", steps(), steps(bias2=9), steps(bias1=4, kernel2=5))
    assert not alike.diverged()
    found = apart.diverged()
    assert (found.step, found.rank, found.array) == (1, 2, "bias")
    assert found.norms == (pytest.approx(4 * 6**0.5), pytest.approx(6**0.5))
    other = recorded("other", steps(), steps(bias2=8)).diverged(apart)
    assert (other.step, other.rank, other.array) == (2, 1, "bias") and "apart" in str(other)
    assert main(["compare", "--ranks", "alike"]) == 0
    assert main(["compare", "--ranks", "apart"]) == 1
    assert main(["compare", "--ranks", "alike", "apart", "other"]) == 2
    assert "rank 2, bias" in capsys.readouterr().out


def test_rounding_is_no_difference_within_a_tolerance(recorded):
    rounded = recorded("rounded", steps(), steps(kernel1=1 + 1e-6))
    assert rounded.diverged().array == "kernel"
    assert not rounded.diverged(tolerance=1e-5)
    assert recorded("broken", steps(), steps(kernel1=np.nan)).diverged(tolerance=1e-5).norms[0] != 6**0.5


@pytest.mark.parametrize(
    "one, two", [(np.ones((2, 3)), np.ones((3, 2))), (np.zeros(2, np.float32), np.zeros(2, np.int32))]
)
def test_shapes_and_dtypes_count(recorded, one, two):
    assert recorded("run", {1: {"a": one}}, {1: {"a": two}}).diverged()


def test_imaginary_parts_count_within_a_tolerance(recorded):
    assert recorded("run", {1: {"a": np.ones(1) + 1j}}, {1: {"a": np.ones(1) + 2j}}).diverged(tolerance=1e-5)


def test_an_array_that_is_not_finite_is_not_one_that_is_missing(recorded):
    found = recorded("run", {1: {}}, {1: {"a": np.full(2, np.inf)}}).diverged()
    assert np.isnan(found.norms[0]) and found.norms[1] is None and "not finite and none" in str(found)


@pytest.mark.parametrize("missing, reference", [(0, 1), (1, 0)])
def test_ranks_after_one_without_records_are_compared(recorded, missing, reference):
    run = recorded("run", steps(), steps(), steps(), steps(bias2=5))
    (run.folder / f"checksums-{missing}.jsonl").unlink()
    found = run.diverged()
    assert (found.step, found.rank, found.other) == (2, 3, f"rank {reference}")
    assert f"ranks {reference}, 2 and 3" in str(found)


@pytest.mark.parametrize("value", [np.array(["text"]), np.zeros(1, "i4,f4"), [[1], [1, 2]]])
def test_what_has_no_norm_is_refused(recorded, value):
    with pytest.raises(InputError, match="a must be"):
        recorded("run", {1: {"a": value}})


def test_a_step_may_be_a_variable_and_is_an_integer(recorded):
    tf = pytest.importorskip("tensorflow")
    run = recorded("run", {1: {}})
    Recorder(run.folder).checksums(tf.Variable(7, dtype=tf.int64), {"a": np.ones(1)})
    assert '"step": 7' in (run.folder / "checksums-0.jsonl").read_text()


def test_missing_arrays_differ_and_repeated_steps_count_once(recorded):
    fewer = {step: {"kernel": arrays["kernel"]} for step, arrays in steps().items()}
    assert recorded("fewer", steps(), fewer).diverged().array == "bias"
    again = recorded("again", steps(kernel2=7), steps())
    Recorder(again.folder).checksums(2, {"kernel": np.zeros(1)})  # of rank 1, after a restart
    assert again.diverged().norms[0] == 0.0


@pytest.mark.parametrize(
    "ranks, word", [([], "no checksums"), ([steps()], "one rank"), ([steps(), {5: {}}], "no step")]
)
def test_nothing_to_compare_is_refused(recorded, ranks, word):
    with pytest.raises(InputError, match=word):
        recorded("run", *ranks).diverged()


def test_tensors_of_any_framework_are_recorded(recorded):
    tf = pytest.importorskip("tensorflow")
    numbers = [[1.5, -2.0]]
    same = [np.array(numbers, np.float32), tf.Variable(numbers), tf.constant(numbers)]
    try:
        import torch
    except ImportError:
        pass
    else:
        same.append(torch.tensor(numbers, requires_grad=True))
        assert not recorded("half", *[{1: {"a": torch.tensor(numbers).bfloat16()}}] * 2).diverged()
    assert not recorded("tensors", *({1: {"a": array}} for array in same)).diverged()
    with pytest.raises(InputError, match="gradient must be"):
        recorded("sparse", {1: {"gradient": tf.IndexedSlices(tf.ones([1, 2]), [0])}})
