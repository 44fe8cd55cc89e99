"""`train_cifar.py` in this process: what its step sends, and what it refuses."""

import pytest

from helpers import ROOT

pytest.importorskip("horovod.tensorflow")

from course.training.recipes import OPTIMIZERS
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


def test_each_optimizers_options_are_the_scripts(script):
    fits = {option for each in OPTIMIZERS.values() for option in each.fits}
    assert fits and fits <= set(vars(script.parse_args([])))


def test_invalid_settings_are_refused(script):
    for arguments, words in (
        ("--global-batch 64 --backward-passes-per-step 3", "nearest that can is 63"),
        ("--global-batch 500", "at most 200"),
        ("--noise-scale", "two ranks"),
        ("--keep-weights", "ddl run"),
        ("--resume nowhere", "looked for nowhere"),
    ):
        with pytest.raises(CourseError, match=words):
            script.main(script.parse_args(["--train-samples", "200", "--global-batch", "32", *arguments.split()]))
