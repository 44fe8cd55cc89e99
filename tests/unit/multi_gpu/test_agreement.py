"""Weights of runs, compared."""

from types import SimpleNamespace

import numpy as np
import pytest

from course.multi_gpu.agreement import agreement, kept_weights
from ddl.records.folder import RunFolder


def run(folder, name, kept, **result):
    """A finished run that has kept these weights."""
    folder = folder / name
    folder.mkdir()
    weights = {f"{step}.{index}": np.float32(each) for step, rows in kept.items() for index, each in enumerate(rows)}
    np.savez(RunFolder(folder).weights, **weights)
    facts = {"ranks": 2, "threads_per_rank": 1, "replicas": 2, "test_accuracy": 0.5, "images_per_s": 100.0}
    return SimpleNamespace(id=f"id-{name}", name=name, folder=folder, state="done", result=facts | result)


def test_agreement_is_the_largest_difference_of_any_weight(tmp_path):
    runs = [
        run(tmp_path, "one", {1: [[1.0, -4.0], [2.0]], 4: [[1.0, -5.0], [2.0]]}, ranks=1),
        run(tmp_path, "two", {1: [[1.0, -4.0], [2.0]], 4: [[1.5, -5.0], [1.0]]}),
    ]
    table = agreement(runs)
    assert table["largest difference of a weight"].tolist() == [0, 1]
    assert table["÷ the largest weight"].tolist() == pytest.approx([0, 0.2])
    assert table["processes × threads"].tolist() == ["1 × 1", "2 × 1"]
    early = agreement(runs, step=1)
    assert early["largest difference of a weight"].tolist() == [0, 0]
    assert early["updates"].tolist() == [1, 1]
    many = [[float(number)] for number in range(12)]
    kept = kept_weights(run(tmp_path, "many", {4: many}))
    assert [weight.tolist() for weight in kept[4]] == many
