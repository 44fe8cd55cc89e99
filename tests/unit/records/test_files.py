"""Files that appear whole or not at all, and one lock for the processes of a machine."""

import errno
import os
import signal
import sys
from unittest.mock import Mock

import pytest

from ddl.records import files
from helpers import started


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "kept"
    path.write_text("old")
    return path


def test_write_is_atomic_for_readers(path):
    with files.replacing(path, durable=True) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_failed_write_keeps_the_old_file(path, error):
    with pytest.raises(type(error)) as raised, files.replacing(path) as file:
        file.write(b"half")
        raise error
    assert path.read_text() == "old" and os.listdir(path.parent) == [path.name]
    assert getattr(raised.value, "filename", str(path)) == str(path)


HOLD = "import sys, time; from ddl.records.files import locked\nwith locked(sys.argv[1]): print(flush=True); time.sleep(60)"


def test_lock_is_released_when_holder_dies(tmp_path):
    busy = Mock(side_effect=InterruptedError)
    path = tmp_path / "new folder" / "lock"
    with started(sys.executable, "-c", HOLD, path) as holder:
        holder.stdout.readline()
        with pytest.raises(InterruptedError), files.locked(path, busy):
            pytest.fail("it is held by another process")
        with files.locked(path, lambda: holder.send_signal(signal.SIGKILL)):
            assert holder.wait(10) == -signal.SIGKILL
    with files.locked(path, busy):
        pass


def test_a_file_system_without_locks_is_no_obstacle(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", flock)
    done = []
    with pytest.warns(UserWarning, match="no file locks"), files.locked(tmp_path / "lock"):
        done.append(1)
    assert done
