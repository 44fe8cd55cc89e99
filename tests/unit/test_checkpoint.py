import os

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from ddl import checkpoint
from ddl.recipes import SettingError

SETTINGS = {"model": "cnn", "seed": 0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_RUN_DIR", str(tmp_path))
    return tmp_path


def variables(value):
    return [tf.Variable(tf.fill([2, 3], float(value))), tf.Variable(value, dtype=tf.int64)]


def test_a_checkpoint_gives_back_variables_and_state(folder):
    path = checkpoint.save(variables(7), {"step": 12, "totals": [0.5]}, SETTINGS)
    assert path.parent == folder
    other = variables(0)
    assert checkpoint.restore(path, other, SETTINGS) == {"step": 12, "totals": [0.5]}
    np.testing.assert_array_equal(other[0], np.full((2, 3), 7.0))
    assert other[1].numpy() == 7


def test_other_settings_are_refused_by_name(folder):
    path = checkpoint.save(variables(7), {}, SETTINGS)
    with pytest.raises(SettingError, match="seed is 1 here and 0 there"):
        checkpoint.restore(path, variables(0), {**SETTINGS, "seed": 1})


def test_a_broken_write_leaves_the_checkpoint_before(folder, monkeypatch):
    path = checkpoint.save(variables(7), {"step": 1}, SETTINGS)
    monkeypatch.setattr(checkpoint.np, "savez", lambda file, **_: (file.write(b"half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        checkpoint.save(variables(8), {"step": 2}, SETTINGS)
    assert checkpoint.restore(path, variables(0), SETTINGS) == {"step": 1}
    assert os.listdir(folder) == [path.name]


def test_a_checkpoint_is_found_by_file_folder_and_run(folder, tmp_path, monkeypatch):
    path = checkpoint.save(variables(7), {}, SETTINGS)
    assert checkpoint.find(path) == checkpoint.find(folder) == path
    monkeypatch.setenv("DDL_RUNS_DIR", str(folder.parent))
    assert checkpoint.find(folder.name) == path
    with pytest.raises(SettingError, match="looked for nowhere"):
        checkpoint.find("nowhere")


def test_without_a_run_there_is_no_place_for_a_checkpoint(monkeypatch):
    monkeypatch.delenv("DDL_RUN_DIR", raising=False)
    with pytest.raises(SettingError, match="ddl run"):
        checkpoint.folder()
