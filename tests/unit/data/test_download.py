"""Fetching over a real loopback server: whole, broken, altered, twice at once, and not at all."""

import hashlib
import http.server
import io
import os
import pickle
import re
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from ddl.data import DataError, catalogue, cifar10, download, fetch, load
from helpers import serving, until


def archive():
    """Return the bytes of an archive in the official layout, with 10 pictures in each batch."""
    rng = np.random.default_rng(0)

    def batch():
        return {b"data": rng.integers(0, 256, (10, 3072), np.uint8), b"labels": list(range(10))}

    meta = {b"num_cases_per_batch": 10, b"label_names": [b"class %d" % k for k in range(10)]}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in (cifar10.META, *cifar10.TRAIN, cifar10.TEST):
            content = pickle.dumps(meta if name == cifar10.META else batch())
            member = tarfile.TarInfo(f"{cifar10.FOLDER}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


CONTENT = archive()


class Server(http.server.ThreadingHTTPServer):
    """Serves `content` at any address, with the faults that a test asks for."""

    daemon_threads = True
    content = CONTENT
    ranges = True  # Honours Range.
    breaks_after = ()  # Bytes after which each of the first answers ends.
    delay_s = 0.0
    goes_on = None  # An event that the content waits for, after the answer has begun.
    status = 200
    leads_to = None  # Where it sends those who ask.
    length = True  # Says how long its answer is.
    type = None  # What it says that it sends.

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []  # The Range of each request, or None.
        self.address = f"http://127.0.0.1:{self.server_port}/{cifar10.ARCHIVE.file}"


class Handler(http.server.BaseHTTPRequestHandler):
    """One answer of `Server`."""

    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        number = len(server.asked)
        server.asked.append(wanted)
        time.sleep(server.delay_s)
        if server.leads_to:
            self.send_response(server.status)
            self.send_header("Location", server.leads_to)
            self.end_headers()
            return
        if server.status != 200:
            self.send_error(server.status)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and server.ranges else 0
        self.send_response(206 if start else 200)
        if start:
            whole = len(server.content)
            self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
        if server.length:
            self.send_header("Content-Length", str(len(server.content) - start))
        if server.type:
            self.send_header("Content-Type", server.type)
        self.end_headers()
        if server.goes_on:
            server.goes_on.wait(60)
        stop = server.breaks_after[number] if number < len(server.breaks_after) else None
        self.wfile.write(server.content[start:][:stop])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with serving(Server()) as server:
        yield server


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty data folder, and a small official archive."""
    known = replace(cifar10.ARCHIVE, size_bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(cifar10, "ARCHIVE", known)
    monkeypatch.setattr(download, "CHUNK_BYTES", 10_000)
    monkeypatch.setattr(download, "PAUSES_S", (0.05, 0.05))
    monkeypatch.setenv("DDL_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path


def whole(folder):
    path = folder / cifar10.ARCHIVE.file
    return path.exists() and path.read_bytes() == CONTENT and not part(folder).exists()


def part(folder):
    return folder / f"{cifar10.ARCHIVE.file}.part"


def test_fetch_downloads_once_and_then_finds_it(folder, server, monkeypatch):
    monkeypatch.setenv("DDL_CIFAR10_URL", server.address)
    lines = []
    fetch("cifar10", lines.append)
    assert whole(folder) and load("cifar10").form == "official"
    assert f"downloading {server.address} to {folder}" in lines[0]
    assert any("MiB/s" in line for line in lines) and "checksum agrees" in lines[-2]
    fetch("cifar10", str)
    assert server.asked == [None]


def test_break_is_continued_where_it_was(folder, server):
    server.breaks_after = (50_000, 30_000)
    fetch("cifar10", str, server.address)
    assert whole(folder) and server.asked == [None, "bytes=50000-", "bytes=80000-"]


def test_server_that_ignores_ranges_starts_over(folder, server):
    server.ranges = False
    part(folder).write_bytes(CONTENT[:70_000])
    fetch("cifar10", str, server.address)
    assert whole(folder) and len(server.asked) == 1


def test_connection_that_always_breaks_ends_with_what_is_kept(folder, server):
    server.breaks_after = (50_000,) + (0,) * 9
    with pytest.raises(DataError, match="ended early. 0.0 MiB are kept; fetching again continues"):
        fetch("cifar10", str, server.address)
    assert len(server.asked) == 4 and part(folder).stat().st_size == 50_000
    server.breaks_after = ()
    fetch("cifar10", str, server.address)
    assert whole(folder)


def test_altered_part_is_noticed_and_fetched_again(folder, server):
    part(folder).write_bytes(b"x" * 70_000)
    lines = []
    fetch("cifar10", lines.append, server.address)
    assert whole(folder) and any("altered; starting over" in line for line in lines)
    assert server.asked == ["bytes=70000-", None]


@pytest.mark.parametrize("size", [len(CONTENT), len(CONTENT) + 5])
def test_part_that_is_full_but_wrong_is_fetched_again(folder, server, size):
    part(folder).write_bytes(b"x" * size)
    fetch("cifar10", str, server.address)
    assert whole(folder)


@pytest.mark.parametrize("damage", [lambda c: c[:-100], lambda c: c[:500] + b"?" + c[501:]])
def test_damaged_archive_is_named_and_fetched_again(folder, server, damage):
    (folder / cifar10.ARCHIVE.file).write_bytes(damage(CONTENT))
    lines = []
    fetch("cifar10", lines.append, server.address)
    assert whole(folder) and f"{folder / cifar10.ARCHIVE.file} is damaged" in lines[0]


def test_damaged_archive_stays_until_the_new_one_is_whole(folder, server):
    (folder / cifar10.ARCHIVE.file).write_bytes(b"damaged")
    server.status = 503
    with pytest.raises(DataError, match="answers 503.*DDL_CIFAR10_URL"):
        fetch("cifar10", str, server.address)
    assert (folder / cifar10.ARCHIVE.file).read_bytes() == b"damaged"


def test_server_that_lies_is_refused(folder, server):
    server.content = CONTENT[:-1] + b"?"
    with pytest.raises(DataError, match="not the official .*checksum differs, so it was deleted"):
        fetch("cifar10", str, server.address)
    assert os.listdir(folder) == ["cifar10.lock"]


PAGES = {
    "short": (b"<html>Please log in</html>", "text/html"),
    "of no type": (b"\xef\xbb\xbf \r\n<!DOCTYPE html><title>Log in</title>", None),
    "as long as the archive": (b"<html>".ljust(len(CONTENT)), "text/html; charset=utf-8"),
    "longer than the archive": (b"<html>".ljust(2 * len(CONTENT)), "application/octet-stream"),
}


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("kept", [0, 70_000])
@pytest.mark.parametrize("page", PAGES)
def test_web_page_is_named_and_what_was_there_is_kept(folder, server, page, kept, length):
    server.ranges, server.length = False, length
    server.content, server.type = PAGES[page]
    part(folder).write_bytes(CONTENT[:kept])
    with pytest.raises(DataError, match="answers with a web page instead of .*DDL_CIFAR10_URL"):
        fetch("cifar10", str, server.address)
    assert len(server.asked) == 1 and part(folder).read_bytes() == CONTENT[:kept]
    server.content, server.type, server.ranges, server.length = CONTENT, None, True, True
    fetch("cifar10", str, server.address)
    assert whole(folder) and server.asked[1] == ("bytes=70000-" if kept else None)


def test_text_of_no_length_is_a_page_too(folder, server):
    server.length = False
    for server.content, server.type in (
        (b"Please log in", "text/plain"),
        (b'{"error": "log in"}', None),
        (b"\x1f\x8b packed markup", "text/html"),
        ("Access denied – quota exceeded".encode(), "application/octet-stream"),
        ("<!doctype html>".encode("utf-16"), None),
    ):
        with pytest.raises(DataError, match="a web page instead of"):
            fetch("cifar10", str, server.address)
        assert not part(folder).exists() or not part(folder).stat().st_size


@pytest.mark.parametrize("page", [(b"Log in", "text/html"), (b"\xef\xbb\xbf\n<HTML>Log in", None), (b"<?xml ?>", None)])
def test_page_as_the_rest_of_an_archive_is_named_and_not_asked_for_again(folder, server, page):
    server.content, server.type = CONTENT[:70_000] + page[0], page[1]
    part(folder).write_bytes(CONTENT[:70_000])
    server.content += b" " * (len(CONTENT) - len(server.content))
    with pytest.raises(DataError, match="answers with a web page instead of"):
        fetch("cifar10", str, server.address)
    assert len(server.asked) == 1 and part(folder).read_bytes() == CONTENT[:70_000]


@pytest.mark.parametrize(
    ("status", "to", "said"),
    [
        (302, "/again", "answers 302 .*infinite loop"),
        (302, "http://[wrong/a", "Invalid IPv6 URL"),
        (302, "file:///etc/hostname", "answers 302 .*not allowed"),
        (511, "/", "answers 511 Network"),
    ],
)
def test_wrong_redirection_is_one_line(folder, server, status, to, said):
    server.status, server.leads_to = status, to
    with pytest.raises(DataError, match=said) as caught:
        fetch("cifar10", str, server.address)
    assert "\n" not in str(caught.value) and not part(folder).exists()


@pytest.mark.parametrize("length", [True, False])
def test_archive_without_a_length_or_of_a_wrong_type_is_fetched(folder, server, length):
    server.length, server.type = length, "text/html" if length else "application/x-gzip"
    fetch("cifar10", str, server.address)
    assert whole(folder)


def test_another_file_is_refused_before_it_is_kept(folder, server):
    server.content = b"PK another archive"
    with pytest.raises(DataError, match="offers 18 bytes.*it is another file"):
        fetch("cifar10", str, server.address)
    assert os.listdir(folder) == ["cifar10.lock"]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/a", "http://no-such-host.invalid/a"])
def test_no_network_is_noticed_at_once(folder, address):
    with pytest.raises(DataError, match="can not be downloaded from.*DDL_DATA_DIR.*`synthetic`"):
        fetch("cifar10", str, address)
    assert os.listdir(folder) == ["cifar10.lock"]


def test_silent_server_is_given_up_in_seconds(folder, server, monkeypatch):
    monkeypatch.setattr(download, "CONNECT_S", 0.3)
    server.delay_s = 1
    with pytest.raises(DataError, match="no answer in 0.3 s"):
        fetch("cifar10", str, server.address)


def test_full_disk_is_said_and_leaves_no_file(folder, server):
    part(folder).symlink_to("/dev/full")  # Every write to it: no space left on device.
    with pytest.raises(DataError, match="No space left on device. Free some space"):
        fetch("cifar10", str, server.address)
    assert not (folder / cifar10.ARCHIVE.file).exists()


def test_too_small_disk_is_said_before_downloading(folder, server, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 9}))
    with pytest.raises(DataError, match="free and cifar-10-python.tar.gz needs"):
        fetch("cifar10", str, server.address)
    assert server.asked == []


def test_two_processes_at_once_download_once(folder, server):
    server.goes_on = threading.Event()
    code = (
        "import sys; from dataclasses import replace; from ddl.data import cifar10, fetch\n"
        "cifar10.ARCHIVE = replace(cifar10.ARCHIVE, size_bytes=int(sys.argv[2]),"
        " sha256=sys.argv[3])\n"
        "fetch('cifar10', address=sys.argv[1])"
    )
    known = cifar10.ARCHIVE
    command = [sys.executable, "-c", code, server.address, str(known.size_bytes), known.sha256]

    def start():
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    first = start()
    until(lambda: server.asked)
    second = start()
    said = second.stdout.readline()
    server.goes_on.set()
    said = [first.communicate(timeout=60)[0], said + second.communicate(timeout=60)[0]]
    assert [first.returncode, second.returncode] == [0, 0]
    assert server.asked == [None] and whole(folder)
    assert ["another process fetches it; waiting" in text for text in said] == [False, True]
    assert all("pictures, official, in" in text for text in said)


def test_lock_of_a_killed_process_is_free(folder, server):
    code = (
        "import os, sys, pathlib; from ddl.records.files import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, folder / "cifar10.lock"])
    lines = []
    catalogue.fetch("cifar10", lines.append, server.address)
    assert whole(folder) and not any("waiting" in line for line in lines)
