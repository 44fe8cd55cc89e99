"""What Horovod was built with."""

import subprocess

from ddl.diagnose import horovod_build


def test_horovods_build_is_cached(tmp_path, monkeypatch):
    asked = []

    def ask(command, **_):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, '{"gloo": true, "mpi": false}\n', "")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", ask)
    assert horovod_build.built_with() == horovod_build.built_with() == {"gloo": True, "mpi": False}
    assert len(asked) == 1
    for kept in tmp_path.glob("ddl/horovod-build-*.json"):
        kept.write_text("{")
    assert horovod_build.built_with()["gloo"] and len(asked) == 2
