import os

import numpy as np
import pytest

from ddl import launch
from ddl.job.job import Job, JobError
from ddl.job.scripts import cluster_of, is_light, option_arguments, resolve_script


def test_options_become_arguments():
    options = {"recipe": "warmup", "sync_bn": True, "seed": 0, "resume": None, "augment": False}
    assert option_arguments(options) == ("--recipe", "warmup", "--sync-bn", "--seed", "0")
    assert option_arguments({"widths": [4, 8], "steps": 2}) == ("--widths", "4", "8", "--steps", "2")


def test_arguments_are_text_and_the_name_defaults_to_the_script():
    job = Job(script="/x/train_cifar.py", args=["--lr", 0.1])
    assert (job.args, job.name) == (("--lr", "0.1"), "train_cifar")


@pytest.mark.parametrize(
    "options, message",
    [
        *(({"workers": workers}, "workers .*integer") for workers in (0, -1, 1.5, "2", True)),
        ({"timeout_s": 0}, "timeout_s .*positive"),
        ({"timeout_s": "10"}, "timeout_s .*number"),
        ({"name": 5}, "name .*text"),
        *(({"name": name}, "name .*control characters") for name in ("a\nb", "a\tb", "a\x1bb")),
        *(({name: "no"}, f"{name} .*True or False") for name in ("elastic", "oversubscribe", "warm")),
        ({"env": (("HOROVOD_RANK", "7"),)}, "HOROVOD_RANK"),
        ({"env": (("LONG", "x" * 200_000),)}, "LONG .*at most"),
        ({"cluster": "mirrored"}, "horovod, multi_worker, parameter_server, torchrun"),
        ({"cluster": "parameter_server", "parameter_servers": 0}, "parameter_servers .*integer"),
        ({"cluster": "multi_worker", "parameter_servers": 1}, 'needs cluster="parameter_server"'),
        ({"parameter_servers": -1}, 'needs cluster="parameter_server"'),
        ({"elastic": True, "max_restarts": 1}, "max_restarts"),
        ({"elastic": True, "cluster": "torchrun"}, "cluster"),
        ({"debug": 2}, "rank from 0 to 1"),
        *(
            ({"env": (variable,)}, "env must")
            for variable in (("", "x"), ("A B", "x"), ("1A", "x"), ("A", 3), ("A", "\0"))
        ),
    ],
)
def test_invalid_job_is_refused(options, message):
    with pytest.raises(JobError, match=message):
        Job(script="x.py", **options)


def test_numbers_of_numpy_are_accepted():
    job = Job("x.py", workers=np.int64(3), timeout_s=np.float32(2), elastic=np.bool_(False))
    assert (job.workers, job.timeout_s, job.elastic, type(job.workers)) == (3, 2.0, False, int)


@pytest.mark.parametrize("given", [{"args": "--epochs 3"}, {"env": [("A", "1")]}, {"site": 5}, {"detach": "no"}])
def test_an_argument_of_launch_of_a_wrong_type_is_named(given):
    with pytest.raises(JobError, match=next(iter(given))):
        launch("hello.py", dry_run=True, **given)


@pytest.mark.parametrize(
    "script, hint", [("python", "leave it out"), ("x.ipynb", "notebook"), ("x.sh", "Python script"), (None, "path")]
)
def test_what_is_not_a_script_gets_a_hint(tmp_path, script, hint):
    with pytest.raises(JobError, match=hint):
        resolve_script(script, tmp_path)


def test_a_stream_is_no_script(tmp_path):
    """Only one rank could read it; process substitution gives /dev/fd/63."""
    reader, writer = os.pipe()
    os.mkfifo(tmp_path / "x.py")
    for script in (f"/dev/fd/{reader}", "/dev/stdin", "-", tmp_path / "x.py"):
        with pytest.raises(JobError, match="save it as a file"):
            resolve_script(script, tmp_path)
    os.close(reader), os.close(writer)


def test_a_modules_name_may_have_a_hyphen(tmp_path):
    assert resolve_script("-m pack.my-mod", tmp_path) == "-m pack.my-mod"
    assert [Job(script=f"-m {module}").name for module in ("my-mod", "pack.my-mod")] == ["my-mod", "my-mod"]
    with pytest.raises(JobError, match="package.module"):
        resolve_script("-m --epochs", tmp_path)


def test_a_detached_run_has_no_rank_with_a_terminal(monkeypatch):
    monkeypatch.setattr("os.ttyname", lambda descriptor: "/dev/pts/0")
    with pytest.raises(JobError, match="debug .*detach"):
        launch("hello.py", debug=0, detach=True, dry_run=True)


def test_a_script_is_found_in_the_working_directory_first(tmp_path):
    (tmp_path / "train_cifar.py").write_text("")
    assert resolve_script("train_cifar.py", tmp_path) == str(tmp_path / "train_cifar.py")
    assert resolve_script("train_cifar.py", tmp_path / "nowhere").endswith("source_code/train_cifar.py")


@pytest.mark.parametrize(
    ("text", "cluster"),
    [
        ("import torch\n", "torchrun"),
        ("    from torch import nn\n", "torchrun"),
        ("import torch\nimport horovod.torch as hvd\n", "horovod"),
        ("import torch\nimport tensorflow as tf\n", "horovod"),
        ("import tensorflow as tf\ns = tf.distribute.MultiWorkerMirroredStrategy()\n", "multi_worker"),
        ("s = tf.distribute.experimental.ParameterServerStrategy(resolver)\n", "parameter_server"),
        ("import torchvision\nprint('import torch')\n", "horovod"),
        ("", "horovod"),
    ],
)
def test_the_cluster_follows_from_the_imports(text, cluster, script):
    assert cluster_of(script(text))[0] == cluster
    assert cluster_of("-m package.module")[0] == "horovod"


@pytest.mark.parametrize(
    ("text", "light"),
    [
        ("", True),
        ("import json, os.path\nimport numpy as np\nfrom ddl import Recorder\n", True),
        ("import beside\nimport circle\n", True),
        ("def typo(:\n    import tensorflow\n", True),  # which imports nothing
        ("import json, tensorflow\n", False),
        ("def train():\n    from keras import layers\n", False),
        ("import horovod.torch as hvd\n", False),
        ("import heavy\n", False),
        ("from package import beside\n", False),
        ("from . import beside\n", False),
        ("import unknown\n", False),
        ("import importlib\n", False),
        ("tf = __import__('tensorflow')\n", False),
    ],
)
def test_a_script_is_light_if_it_surely_imports_nothing_that_takes_long(text, light, script):
    script("import json, heavier\n", "heavy.py")
    script("from tensorflow import keras\n", "heavier.py")
    script("import json\n", "beside.py")
    script("import circle\n", "circle.py")
    script("import json\n", "package/beside.py")
    assert is_light(str(script(text))) is light
    assert not is_light("-m json.tool")


def test_what_is_asked_for_outweighs_the_imports(script, capsys):
    path = script("import torch")
    launch(path, dry_run=True, workers=1)
    said = capsys.readouterr().out
    assert 'imports torch and not horovod: cluster="torchrun"' in said and "torchrun --standalone" in said
    launch(path, dry_run=True, workers=1, cluster="horovod")
    assert "horovodrun" in capsys.readouterr().out
