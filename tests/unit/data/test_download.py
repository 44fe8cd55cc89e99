"""Fetching over a real loopback server: whole, broken, altered, and not at all."""

import http.server
import io
import os

import pytest
from tqdm import tqdm

from course.data import DataError, cifar10, fetch, listing, load
from helpers import serving
from small_cifar10 import ARCHIVE, OFFICIAL

FILE = OFFICIAL.file


class Server(http.server.ThreadingHTTPServer):
    """Serves `content` at any address, with the faults that a test asks for."""

    daemon_threads = True
    content = ARCHIVE
    breaks_after = None  # bytes
    status = 200

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = 0
        self.address = f"http://127.0.0.1:{self.server_port}/{FILE}"

    def handle_error(self, *_):
        """A client that gives up is what some tests are about."""


class Handler(http.server.BaseHTTPRequestHandler):
    """One answer of `Server`."""

    def do_GET(self):
        server = self.server
        server.asked += 1
        self.send_response(server.status)
        self.send_header("Content-Length", str(len(server.content)))
        self.end_headers()
        self.wfile.write(server.content[: server.breaks_after])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    with serving(Server()) as server:
        monkeypatch.setenv("DDL_CIFAR10_URL", server.address)
        yield server


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make the small archive the official one."""
    monkeypatch.setattr(cifar10.REAL, "files", (OFFICIAL,))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def whole(folder):
    return (folder / FILE).exists() and (folder / FILE).read_bytes() == ARCHIVE


def test_fetch_downloads_once(folder, server, monkeypatch):
    lines, errors = [], io.StringIO()
    monkeypatch.setattr("sys.stderr", errors)
    monkeypatch.setattr("pooch.downloaders.tqdm", tqdm)  # in a notebook's process it would show a widget
    fetch("cifar10", lines.append)
    assert whole(folder) and load("cifar10").form == "official"
    assert f"downloading {server.address} to {folder}" in lines[0]
    assert "%|" in errors.getvalue()  # a progress bar
    fetch("cifar10", str)
    assert server.asked == 1


FAULTS = {
    "altered": ({"content": ARCHIVE[:-1] + b"?"}, "checksum differs.*DDL_CIFAR10_URL"),
    "a login page": ({"content": b"<html>Please log in</html>"}, "checksum differs.*login page"),
    "broken": ({"breaks_after": 50_000}, "cannot be downloaded from 127.0.0.1.*DDL_DATA_DIR"),
    "refused": ({"status": 503}, "answers 503.*DDL_CIFAR10_URL"),
}


@pytest.mark.parametrize("behavior, message", FAULTS.values(), ids=FAULTS)
def test_wrong_download_is_rejected_and_deleted(folder, server, behavior, message):
    vars(server).update(behavior)
    with pytest.raises(DataError, match=message) as caught:
        fetch("cifar10", str)
    assert "\n" not in str(caught.value) and os.listdir(folder) == ["cifar10.lock"]


def test_damaged_archive_is_reported_and_replaced(folder, server):
    damaged = ARCHIVE[:500] + b"?" + ARCHIVE[501:]
    (folder / FILE).write_bytes(damaged)
    with pytest.raises(DataError, match=f"{folder / FILE} is damaged"):
        load("cifar10")
    entry = listing()[0]
    assert not entry.is_here and "damaged" in entry.form
    server.status = 503
    with pytest.raises(DataError, match="answers 503"):
        fetch("cifar10", str)
    assert (folder / FILE).read_bytes() == damaged
    server.status = 200
    fetch("cifar10", str)
    assert whole(folder)


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_mirror_may_be_a_file(folder, monkeypatch, tmp_path, prefix):
    monkeypatch.setenv("DDL_CIFAR10_URL", f"{prefix}{tmp_path}/mine.tar.gz")
    with pytest.raises(DataError, match="DDL_CIFAR10_URL names .*does not exist"):
        fetch("cifar10", str)
    (tmp_path / "mine.tar.gz").write_bytes(ARCHIVE)
    fetch("cifar10", str)
    assert whole(folder)


@pytest.mark.parametrize("name", ["cifar-10.zip", "train-00000-of-00001.parquet"])
def test_another_form_is_named(folder, name):
    (folder / name).touch()
    with pytest.raises(DataError, match=f"{name}.*another format"):
        load("cifar10")
