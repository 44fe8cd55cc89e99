"""What the checks of a distributed training make of records: simulated ones, and ones that are none."""

import base64
import io

import numpy as np
import pytest

from ddl.grader import conversion, launches

NAMES = ("frozen", "tied", "inner", "outer")


def plain(weights):
    return {name: weights[name].tolist() for name in NAMES}


def trained(request, batch_of=lambda numbers, rank, ranks: numbers[rank::ranks], tell=lambda rank, line: line):
    """Train as the ranks of a script do, in NumPy; return what they would record."""
    given = [np.load(io.BytesIO(base64.b64decode(text))) for text in request["inputs"]]
    ranks, (samples, order, batch, rate) = len(given), (given[0][f"task_{number}"] for number in range(4))
    weights = {name: given[0][f"start_{number}"].astype(float) for number, name in enumerate(NAMES)}
    lines = [[{"event": "begin", "weights": plain(weights)}] for _ in range(ranks)]
    size = int(batch) * ranks
    for numbers in order[: len(order) // size * size].reshape(-1, size):
        parts = [batch_of(numbers, rank, ranks) for rank in range(ranks)]
        found = [conversion._loss_and_gradients(weights, samples[part]) for part in parts]
        for name in conversion.TRAINED:
            weights[name] = weights[name] - rate * sum(gradients[name] for _, gradients in found)
        loss = np.mean([loss for loss, _ in found])
        for rank, part in enumerate(parts):
            step = {"event": "step", "samples": part.tolist(), "loss": loss, "counted": size}
            lines[rank].append(tell(rank, step | {"weights": plain(weights)}))
    return {"ranks": [{"status": 0, "lines": lines[rank], "wrote": rank == 0} for rank in range(ranks)]}


def lost(monkeypatch, reply, ranks=3):
    monkeypatch.setattr(launches, "launch", reply)
    training = conversion.training("mine.py", ranks, seed=1)
    found = set()
    for check in conversion.CHECKS:
        try:
            check(training)
        except AssertionError:
            found.add(check.__name__)
    return found


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_a_training_of_the_closed_form_keeps_all_points(monkeypatch, ranks):
    assert lost(monkeypatch, trained, ranks) == set()


def test_a_mistake_loses_its_own_point(monkeypatch):
    def shared(request):
        return trained(request, batch_of=lambda numbers, rank, ranks: numbers[:: len(numbers) // 4])

    def too_many(request):
        return trained(request, tell=lambda rank, line: line | {"counted": 1})

    def another(request):
        return trained(request, tell=lambda rank, line: line | {"samples": [rank]})

    def writes(request):
        reply = trained(request)
        reply["ranks"][1]["wrote"] = True
        return reply

    assert lost(monkeypatch, shared) == {"own_samples", "same_weights"}
    assert lost(monkeypatch, too_many) == {"true_metrics"}
    assert lost(monkeypatch, another) >= {"own_samples", "averaged", "true_metrics"}
    assert lost(monkeypatch, writes) == {"one_writer"}


STEP = {"event": "step", "samples": [0], "loss": 1.0, "counted": 1, "weights": {}}
RANK = {"status": 0, "error": None, "lines": [], "wrote": True}
UNREADABLE = {
    "no ranks": {},
    "of another number": {"ranks": [RANK] * 2},
    "no lists": {"ranks": 3},
    "ranks that are none": {"ranks": [None, 1, "x"]},
    "lines that are none": {"ranks": [RANK | {"lines": [None, 7, {"event": 3}]}] * 3},
    "weights that are none": {"ranks": [RANK | {"lines": [STEP | {"event": "begin"}, STEP]}] * 3},
    "an error that is none": {"ranks": [RANK | {"status": 1, "error": {"message": [1], "line": "x"}}] * 3},
    "late without an end": {"late": True, "ranks": [RANK] * 3},
    "ended": {"ended": "it had more than 128 processes and threads"},
    "missing": {"missing": "mine.py"},
    "unwritten": {"unwritten": "mine.py"},
}


@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_record_is_said(monkeypatch, reply):
    with pytest.raises(AssertionError, match="mine.py"):
        lost(monkeypatch, lambda request: reply)


def test_a_rank_that_notices_how_another_is_ended_was_late_too(monkeypatch):
    waiting = RANK | {"status": None}
    noticed = waiting | {"error": {"type": "HorovodInternalError", "message": "gone", "line": 3}}
    with pytest.raises(
        AssertionError, match=r"did not end within 10 s \(rank 0 waits after step 0, rank 1 waits after"
    ):
        lost(monkeypatch, lambda request: {"late": True, "seconds": 10, "ranks": [waiting, noticed, waiting]})


def test_numbers_that_no_sample_has_are_refused(monkeypatch):
    with pytest.raises(AssertionError, match="cannot be read.*no sample has"):
        lost(monkeypatch, lambda request: trained(request, tell=lambda rank, line: line | {"samples": [-1, 10**6]}))
