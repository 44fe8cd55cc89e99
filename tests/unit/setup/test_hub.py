"""What a class's hub is made of: shares of cores, limits, folders, and the copies that attendees get."""

import os
import resource
import stat
import subprocess
import sys

import pytest

from course.lab.class_checkout import COURSE, check_out_course
from helpers import ROOT, git

pytest.importorskip("jupyterhub", reason="jupyterhub is not installed")
sys.path.append(str(ROOT / "grading"))

from hub.__main__ import MODES, prepare, sign_in, write_bundle
from hub.spawners import ClassSpawner, share_of_cores


def test_two_attendees_have_the_same_cores_or_none_in_common():
    for cores, each, shares in (
        ([0, 1], 2, [[0, 1]] * 3),
        ([0, 1, 4, 5], 2, [[0, 1], [4, 5], [0, 1]]),
        ([0, 1, 2], 2, [[0, 1]] * 3),  # one core is left over
        ([0, 1], 8, [[0, 1]] * 3),
        ([0, 1], 0.5, [[0], [1], [0]]),
        ([0, 1], None, [[0, 1]] * 3),
    ):
        assert [share_of_cores(cores, number, each) for number in range(3)] == shares


def test_a_server_starts_with_its_limits(monkeypatch):
    monkeypatch.setattr("jupyterhub.spawner.set_user_setuid", lambda name: lambda: None)
    core = min(os.sched_getaffinity(0))
    monkeypatch.setattr(ClassSpawner, "cores", [core])
    preexec = ClassSpawner(mem_limit="1G").make_preexec_fn("ann")
    code = "import os, resource; print(os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_DATA)[1])\n"
    code += "try: bytearray(1 << 30)\nexcept MemoryError: print('refused')"
    printed = subprocess.check_output([sys.executable, "-c", code], preexec_fn=preexec, text=True)
    assert printed == f"{{{core}}} {1 << 30}\nrefused\n"
    assert resource.getrlimit(resource.RLIMIT_DATA)[1] != 1 << 30  # the hub has its own


def test_hub_secrets_are_private(tmp_path):
    prepare(tmp_path)
    assert {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in MODES} == MODES
    said = sign_in(tmp_path, accounts=False)
    password, admin = (tmp_path / "hub" / name for name in ("password", "admin-password"))
    kept = password.read_text(), admin.read_text()
    assert len(kept[0]) >= 8 and len(kept[1]) >= 32 and kept[0] not in said and kept[1] not in said
    assert stat.S_IMODE(password.stat().st_mode) == stat.S_IMODE(admin.stat().st_mode) == 0o600
    sign_in(tmp_path, accounts=False)
    assert (password.read_text(), admin.read_text()) == kept


@pytest.fixture
def course(tmp_path):
    """A course with one committed and one uncommitted file, on a branch with an unusual name."""
    folder = tmp_path / "original"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "mine")
    (folder / "Start_Here.ipynb").write_text("{}")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "draft.py").touch()
    return folder


def test_attendee_gets_the_committed_course_and_its_updates(course, tmp_path, monkeypatch):
    bundle, home = tmp_path / "course.bundle", tmp_path / "home"
    home.mkdir()
    git(course, "checkout", "-q", "--detach")
    write_bundle(course, bundle)
    monkeypatch.chdir(home)
    for name, value in (("HOME", home), (COURSE, bundle), ("PYTHONPATH", "")):
        monkeypatch.setenv(name, str(value))
    copy = check_out_course()
    assert os.getcwd() == str(copy) and os.environ["PYTHONPATH"] == str(copy / "source_code")
    assert {path.name for path in copy.iterdir()} == {".git", "Start_Here.ipynb"}
    (copy / "mine.py").touch()
    assert check_out_course() == copy and (copy / "mine.py").exists()
    git(course, "add", ".")
    git(course, "commit", "-q", "-m", "second")
    write_bundle(course, bundle)
    git(copy, "fetch", "-q")
    assert git(copy, "rev-parse", "@{upstream}") == git(course, "rev-parse", "HEAD")
