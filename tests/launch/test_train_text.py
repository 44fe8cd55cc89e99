"""Text classification on real processes: three runs that agree, and house numbers in a loop."""

import numpy as np
import pytest

pytest.importorskip("tensorflow_hub")

from course.data import load_questions
from ddl import launch
from helpers import answers, launched, launches

pytestmark = pytest.mark.nightly("source_code/course/multi_gpu/scripts/train_text.py", "source_code/course/training/*")

STRATEGIES = {"single": dict(workers=1), "mirrored": dict(workers=1, replicas=2), "horovod": dict(workers=2)}
SMALL = dict(samples=2000, data_set="questions", oversubscribe=True)


TRAINED = {"script": "train_text.py", "epochs": 3, **SMALL}
OUTPUTS = {
    "runs": launches(
        {strategy: {**TRAINED, "strategy": strategy, "name": strategy, **how} for strategy, how in STRATEGIES.items()}
    )
}


@pytest.fixture(scope="module")
def runs(output_of):
    """One finished run of each strategy, with the same seed, batches and number of epochs."""
    return launched(*output_of("runs"))


def weights(run):
    kept = np.load(run.folder / "weights.npz")
    return [kept[name] for name in kept.files]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_text_strategies_end_with_the_same_weights(runs, strategy, nothing_left):
    """Float32, 36 steps of Adam: the same sums in another order, and nothing more than that."""
    ours, first = weights(runs[strategy]), weights(runs["single"])
    for a, b in zip(ours, first, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    for name in ("loss", "validation_loss", "test_loss", "accuracy", "validation_accuracy"):
        np.testing.assert_allclose(runs[strategy].history[name], runs["single"].history[name], atol=1e-4)
    nothing_left(runs[strategy])
    result, processes = runs[strategy].result, STRATEGIES[strategy]["workers"]
    assert (result["strategy"], result["ranks"]) == (strategy, processes)
    assert result["replicas"] == (1 if strategy == "single" else 2)
    assert result["per_rank_batch"] * processes == result["global_batch"] == 128
    splits = load_questions("questions", samples=2000).splits()
    assert result["data"] == splits.describe() and result["data"]["train_samples"] == 1600
    assert result["steps"] == 36 and result["samples"] == 36 * 128
    assert result["test"]["majority"] == 1 - splits.test.targets.mean()
    assert list((runs[strategy].folder / "tensorboard").rglob("events.out.*"))
    assert "epoch   1.00" in runs[strategy].logs(0)
    if processes == 2:
        assert "epoch   1.00" not in runs[strategy].logs(1)
    notes = [event["message"] for event in runs[strategy].events() if event["event"] == "note"]
    assert any("logical devices" in note for note in notes) == strategy.startswith("mirrored")


def test_early_stopping_restores_the_best_weights():
    run = launch("train_text.py", workers=1, epochs=40, patience=1, learning_rate=0.003, **{**SMALL, "samples": 6000})
    losses = run.history["validation_loss"]
    assert run.result["stopped_by"] == "patience" and len(losses) < 40
    best = losses.idxmin()
    assert best == len(losses) - 2
    accuracy = run.history["test_accuracy"][best]
    assert run.result["test_accuracy"] == run.result["test"]["accuracy"] == pytest.approx(accuracy)
    assert f"the weights of epoch {best + 1}" in run.logs(0)
    assert run.result["test"]["f1"] > 0.4


@pytest.fixture
def house_numbers(tmp_path, monkeypatch):
    """Small SVHN files whose digits show in the pictures' brightness."""
    from scipy.io import savemat

    monkeypatch.setenv("DDL_DATA_DIR", str(tmp_path))
    rng = np.random.default_rng(0)
    for split, samples in (("train", 300), ("test", 133)):
        digits = np.arange(samples, dtype=np.uint8) % 10
        pictures = rng.integers(0, 40, (32, 32, 3, samples), np.uint8)
        pictures += (20 * digits).astype(np.uint8)  # the brighter, the larger
        savemat(tmp_path / f"{split}_32x32.mat", {"X": pictures, "y": np.where(digits == 0, 10, digits)[:, None]})


def test_svhn_is_trained_by_the_readers_loop(house_numbers, script, nothing_left):
    run = launch(
        "svhn_loop.py", workers=1, loop=script(answers()["my_loop.py"]), epochs=4, global_batch=20, learning_rate=0.01
    )
    result = run.result
    samples = {"train_samples": 300, "test_samples": 133, "held_out": "test"}
    assert result["data"] == {"name": "svhn", "form": "official layout, unverified", **samples}
    assert result["replicas"] == 2 and result["steps"] == 60
    # Of 133 pictures each counts the same: the share is a whole number of them.
    hits = 133 * result["test_accuracy"]
    assert hits == pytest.approx(round(hits), abs=1e-3)
    first, *_, last = run.history["loss"]
    assert last < first - 0.2 and last < np.log(10)
