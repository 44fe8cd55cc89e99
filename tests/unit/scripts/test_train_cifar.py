"""`train_cifar.py` in this process: what its step sends, and what it refuses."""

import os

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


def test_a_step_sends_gradients_and_metrics_in_one_message_unless_they_differ_in_precision(script, monkeypatch):
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


def test_settings_that_can_not_work_are_refused(script):
    for arguments, words in (
        ("--global-batch 64 --backward-passes-per-step 3", "nearest that can is 63"),
        ("--global-batch 500", "at most 200"),
        ("--noise-scale", "two ranks or more, or two backward passes"),
        ("--keep-weights", "ddl run"),
        ("--resume nowhere", "looked for nowhere"),
    ):
        with pytest.raises(CourseError, match=words):
            script.main(script.parse(["--train-samples", "200", "--global-batch", "32", *arguments.split()]))


def test_a_checkpoint_belongs_to_its_precision(script):
    settings = script.comparable(script.parse([]), script.load("small", train_samples=10), "bfloat16")
    assert settings["precision"] == "bfloat16"


class Reached(Exception):
    pass


def test_the_cycle_time_suits_the_step_where_horovod_shares_the_cores(script, monkeypatch):
    def init():
        raise Reached(os.environ.get("HOROVOD_CYCLE_TIME"))

    monkeypatch.setattr(script.hvd, "init", init)
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")
    monkeypatch.delenv("HOROVOD_CYCLE_TIME", raising=False)
    for arguments, ranks, gpus, cycle_ms in (
        ([], 2, [], "1.7"),  # the root of 25 samples x 0.66 ms x twice a wake-up of 0.09 ms
        ([], 1, [], "25.0"),
        (["--recipe", "batch_norm", "--sync-bn"], 2, [], None),
        ([], 2, ["GPU:0"], None),
    ):
        monkeypatch.setattr(script.tf.config, "list_physical_devices", lambda kind, gpus=gpus: gpus)
        monkeypatch.setenv("HOROVOD_SIZE", str(ranks))
        with pytest.raises(Reached) as reached:
            script.main(script.parse(["--global-batch", "50", *arguments]))
        assert reached.value.args == (cycle_ms,)
