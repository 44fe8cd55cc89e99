"""A real disk that is full, fills up, or is read-only, under real runs."""

import os
import subprocess

import pytest

from ddl import launch, runs
from ddl.cli import main
from ddl.records.folder import StorageError

# Fill a disk with a file that can be deleted again.
FILL = """
    import os, sys, time
    from pathlib import Path
    from ddl.records.recorder import Recorder
    folder = Path(os.environ["DDL_RUN_DIR"])
    rank = int(os.environ["HOROVOD_RANK"])
    def fill():
        with open(folder.parent / "filler", "ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    pass
    def free():
        (folder.parent / "filler").unlink()
"""


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A file system of its own for runs, of two megabytes; returns how to mount it otherwise."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    monkeypatch.setenv("DDL_RUNS_DIR", str(folder))
    try:
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder, but=0):
    (folder / "before").write_bytes(bytes(os.statvfs(folder).f_bavail * 4096 - but))


def test_full_disk_refuses_a_launch(script, disk, tmp_path, capsys):
    run = launch(script("pass"), workers=1)
    fill(tmp_path / "disk")
    with pytest.raises(StorageError, match=r"job\.json .*No space left") as caught:
        launch(script("pass"), workers=1)
    assert "DDL_RUNS_DIR" in str(caught.value) and str(tmp_path / "disk") in str(caught.value)
    capsys.readouterr()
    assert main(["run", "-n", "1", str(script("pass"))]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ddl: ") and error.count("\n") == 1 and "No space left" in error
    assert main(["list"]) == 0
    assert capsys.readouterr().out.startswith(f"{run.id}  ✓ script done")
    assert [other.id for other in runs()] == [run.id]


def test_ranks_continue_when_the_disk_fills_up(script, disk, capfd, nothing_left):
    steps = """
    recorder = Recorder() if rank == 0 else None
    for step in range(1, 61):
        print("step", step, "x" * 1000)
        if rank == 0:
            if step == 10:
                fill()
            if step == 50:
                time.sleep(1)  # for who follows to see it
                free()
            recorder.event("step", step=step, samples=step, loss=1.0, room="x" * 8192)  # more than a last page has
    if rank == 0:
        recorder.result({"steps": 60, "name": "x"})
    """
    run = launch(script(FILL + steps), oversubscribe=True)
    assert run.state == "done" and run.result["steps"] == 60
    steps = [event["step"] for event in run.events() if event["event"] == "step"]
    assert steps[:9] == list(range(1, 10)) and steps[-1] == 60 and len(steps) < 60
    shown = capfd.readouterr().out
    assert "note: " in shown and "No space left on device" in shown
    assert "records could not be written meanwhile" in shown
    assert "the ranks' output may be lost" in shown
    assert "bytes are missing here]\n" in run.logs(0)


def test_results_are_kept_if_weights_find_no_room(disk, capfd, nothing_left):
    small = dict(data_set="synthetic", train_samples=200, test_samples=100, epochs=1, global_batch=20)
    disk("size=300k")  # the weights of the network take 700 KiB
    run = launch("train_cifar.py", workers=1, keep_weights=True, **small)
    assert run.state == "done" and run.result["steps"] == 10
    shown = capfd.readouterr().out
    assert "weights.npz" in shown and "No space left" in shown
    assert not (run.folder / "weights.npz").exists()
