"""`train_cifar.py` in this process: what its step sends, and what it refuses."""

import pytest

from helpers import ROOT

pytest.importorskip("horovod.tensorflow")

from ddl.errors import CourseError


@pytest.fixture
def script(monkeypatch):
    """The script as a module, on small data, outside a run."""
    monkeypatch.delenv("DDL_RUN_DIR", raising=False)
    monkeypatch.syspath_prepend(str(ROOT / "source_code"))
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "workers"))
    import train_worker

    import train_cifar

    monkeypatch.setattr(train_cifar, "load", train_worker.small_data)
    return train_cifar


def test_step_sends_gradients_and_metrics_together(script, monkeypatch):
    script.hvd.init()
    monkeypatch.setattr(script.hvd, "size", lambda: 2)
    model = script.models.build("cnn")
    optim = script.optimizer.make("sgd", 0.1, model.trainable_variables)
    data = script.load("small", train_samples=10)
    for arguments, expected in (
        (["--noise-scale"], ["HorovodGroupedAllreduce"]),
        (["--fp16-compression"], ["HorovodGroupedAllreduce", "HorovodAllreduce"]),
    ):
        config = script.parse(["--global-batch", "8", *arguments])
        step = script.make_train_step(model, optim, data, config, slice(0, 4))
        operations = step.get_concrete_function().graph.get_operations()
        exchanges = {operation.type: operation for operation in operations if operation.type.endswith("Allreduce")}
        assert sorted(exchanges) == sorted(expected)
        # Metrics travel in single precision: the last tensor of the message, or the only one of theirs.
        assert exchanges[expected[-1]].outputs[-1].dtype == "float32"


def test_invalid_settings_are_refused(script):
    for arguments, words in (
        ("--global-batch 64 --backward-passes-per-step 3", "nearest that can is 63"),
        ("--global-batch 500", "at most 200"),
        ("--noise-scale", "two ranks"),
        ("--keep-weights", "ddl run"),
        ("--resume nowhere", "looked for nowhere"),
    ):
        with pytest.raises(CourseError, match=words):
            script.main(script.parse(["--train-samples", "200", "--global-batch", "32", *arguments.split()]))
