import pytest

from ddl.job import Job, JobError, option_arguments, resolve_script


def test_options_become_arguments():
    options = {"recipe": "warmup", "sync_bn": True, "seed": 0, "resume": None, "augment": False}
    assert option_arguments(options) == ("--recipe", "warmup", "--sync-bn", "--seed", "0")


def test_arguments_are_text_and_the_name_defaults_to_the_script():
    job = Job(script="/x/train_cifar.py", args=["--lr", 0.1])
    assert job.args == ("--lr", "0.1")
    assert job.name == "train_cifar"


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True])
def test_workers_must_be_a_positive_whole_number(workers):
    with pytest.raises(JobError, match="workers="):
        Job(script="x.py", workers=workers)


def test_a_time_limit_is_above_zero():
    with pytest.raises(JobError, match="seconds above 0"):
        Job(script="x.py", timeout_s=0)


def test_a_script_is_found_in_the_working_directory_first(tmp_path):
    (tmp_path / "train_cifar.py").write_text("")
    assert resolve_script("train_cifar.py", tmp_path) == str(tmp_path / "train_cifar.py")
    assert resolve_script("train_cifar.py", tmp_path / "nowhere").endswith(
        "source_code/train_cifar.py")


def test_an_unknown_script_is_refused_with_those_that_there_are(tmp_path):
    with pytest.raises(JobError, match="train_cifar.py"):
        resolve_script("train_cifra.py", tmp_path)
