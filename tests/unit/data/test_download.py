"""Fetching over a real loopback server: whole, broken, altered, twice at once, and not at all."""

import http.server
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from course.data import DataError, cifar10, download, fetch, listing, load
from helpers import serving, until
from small_cifar10 import ARCHIVE, OFFICIAL

FILE = OFFICIAL.file


class Server(http.server.ThreadingHTTPServer):
    """Serves `content` at any address, with the faults that a test asks for."""

    daemon_threads = True
    content = ARCHIVE
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
        self.address = f"http://127.0.0.1:{self.server_port}/{FILE}"


class Handler(http.server.BaseHTTPRequestHandler):
    """One answer of `Server`."""

    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        number = len(server.asked)
        server.asked.append(wanted)
        time.sleep(server.delay_s)
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and server.ranges else 0
        self.send_response(206 if start else server.status)
        whole = len(server.content)
        headers = {
            "Location": server.leads_to,
            "Content-Range": f"bytes {start}-{whole - 1}/{whole}" if start else None,
            "Content-Length": str(whole - start) if server.length else None,
            "Content-Type": server.type,
        }
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if server.goes_on:
            server.goes_on.wait(60)
        stop = server.breaks_after[number] if number < len(server.breaks_after) else None
        self.wfile.write(server.content[start:][:stop])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    with serving(Server()) as server:
        monkeypatch.setenv("DDL_CIFAR10_URL", server.address)
        yield server


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make the small archive the official one, and pauses and pieces small."""
    monkeypatch.setattr(cifar10.REAL, "files", (OFFICIAL,))
    monkeypatch.setattr(download, "CHUNK_BYTES", 10_000)
    monkeypatch.setattr(download, "PAUSES_S", (0.05, 0.05))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def whole(folder):
    path = folder / FILE
    return path.exists() and path.read_bytes() == ARCHIVE and not part(folder).exists()


def part(folder):
    return folder / f"{FILE}.part"


def test_fetch_downloads_once_and_then_finds_it(folder, server):
    lines = []
    fetch("cifar10", lines.append)
    assert whole(folder) and load("cifar10").form == "official"
    assert f"downloading {server.address} to {folder}" in lines[0]
    assert any("MiB/s" in line for line in lines) and "checksum agrees" in lines[-2]
    fetch("cifar10", str)
    assert server.asked == [None]


# What is in the part file, how the server behaves, and what it is asked for.
CONTINUED = {
    "broken twice": (b"", {"breaks_after": (50_000, 30_000)}, [None, "bytes=50000-", "bytes=80000-"]),
    "ranges ignored": (ARCHIVE[:70_000], {"ranges": False}, ["bytes=70000-"]),
    "altered": (b"x" * 70_000, {}, ["bytes=70000-", None]),
    "full but wrong": (b"x" * len(ARCHIVE), {}, [None]),
    "too long": (b"x" * (len(ARCHIVE) + 5), {}, [None]),
    "of unknown length": (b"", {"length": False, "type": "application/x-gzip"}, [None]),
    "of a wrong type": (b"", {"type": "text/html"}, [None]),
}


@pytest.mark.parametrize("case", CONTINUED)
def test_a_download_is_continued_or_begun_again_until_it_is_whole(folder, server, case):
    kept, behaviour, asked = CONTINUED[case]
    part(folder).write_bytes(kept)
    vars(server).update(behaviour)
    fetch("cifar10", str)
    assert whole(folder) and server.asked == asked


def test_connection_that_always_breaks_ends_with_what_is_kept(folder, server):
    server.breaks_after = (50_000,) + (0,) * 9
    with pytest.raises(DataError, match="ended early. 0.0 MiB are kept; fetching again continues"):
        fetch("cifar10", str)
    assert len(server.asked) == 4 and part(folder).stat().st_size == 50_000
    server.breaks_after = ()
    fetch("cifar10", str)
    assert whole(folder)


def test_a_damaged_archive_is_named_and_stays_until_the_new_one_is_whole(folder, server):
    damaged = ARCHIVE[:500] + b"?" + ARCHIVE[501:]
    (folder / FILE).write_bytes(damaged)
    with pytest.raises(DataError, match=f"{folder / FILE} is damaged.*not the official"):
        load("cifar10")
    entry = listing()[0]
    assert not entry.is_here and "damaged" in entry.form
    server.status = 503
    with pytest.raises(DataError, match="answers 503.*DDL_CIFAR10_URL"):
        fetch("cifar10", str)
    assert (folder / FILE).read_bytes() == damaged
    server.status = 200
    lines = []
    fetch("cifar10", lines.append)
    assert whole(folder) and f"{folder / FILE} is damaged" in lines[0]


PAGES = {  # content, type, whether its length is given
    "short": (b"<html>Please log in</html>", "text/html", True),
    "as long as the archive": (b"<html>".ljust(len(ARCHIVE)), None, True),
    "text": (b"Please log in", "text/plain", False),
    "packed markup": (b"\x1f\x8b packed markup", "text/html", False),
    "another file": (b"PK another archive", "application/zip", True),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_web_page_is_named_and_what_was_there_is_kept(folder, server, page):
    server.ranges = False
    server.content, server.type, server.length = PAGES[page]
    for kept in (0, 70_000):
        server.asked.clear()
        part(folder).write_bytes(ARCHIVE[:kept])
        with pytest.raises(DataError, match="sends something else than .* a login page .*DDL_CIFAR10_URL"):
            fetch("cifar10", str)
        assert len(server.asked) == 1 and part(folder).read_bytes() == ARCHIVE[:kept]


REFUSED = {
    "altered": ({"content": ARCHIVE[:-1] + b"?"}, "not the official .*checksum differs, so it was deleted"),
    "in circles": ({"status": 302, "leads_to": "/again"}, "answers 302 .*infinite loop"),
    "to no address": ({"status": 302, "leads_to": "http://[wrong/a"}, "Invalid IPv6 URL"),
    "to a local file": ({"status": 302, "leads_to": "file:///etc/hostname"}, "answers 302 .*not allowed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_the_archive_is_refused_in_one_line_and_not_kept(folder, server, case):
    behaviour, message = REFUSED[case]
    vars(server).update(behaviour)
    with pytest.raises(DataError, match=message) as caught:
        fetch("cifar10", str)
    assert "\n" not in str(caught.value) and os.listdir(folder) == ["cifar10.lock"]


def test_no_network_is_noticed_at_once(folder, server, monkeypatch):
    for address in ("http://127.0.0.1:9/a", "http://no-such-host.invalid/a"):
        with monkeypatch.context() as patch, pytest.raises(DataError, match="cannot be .* from.*DDL_DATA_DIR.*`synth"):
            patch.setenv("DDL_CIFAR10_URL", address)
            fetch("cifar10", str)
    assert os.listdir(folder) == ["cifar10.lock"]
    monkeypatch.setattr(download, "CONNECT_S", 0.3)
    server.delay_s = 1
    with pytest.raises(DataError, match="no answer in 0.3 s"):
        fetch("cifar10", str)


def test_a_disk_that_is_full_or_too_small_is_named(folder, server, monkeypatch):
    part(folder).symlink_to("/dev/full")  # Every write to it: no space left on device.
    with pytest.raises(DataError, match="No space left on device. Free some space"):
        fetch("cifar10", str)
    assert not (folder / FILE).exists()
    server.asked.clear()
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 9}))
    with pytest.raises(DataError, match="free and cifar-10-python.tar.gz needs"):
        fetch("cifar10", str)
    assert server.asked == []


def test_two_at_once_download_once(folder, server):
    server.goes_on = threading.Event()
    lines = [], []
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetch, "cifar10", lines[0].append)
        until(lambda: server.asked)
        second = pool.submit(fetch, "cifar10", lines[1].append)
        until(lambda: lines[1])
        server.goes_on.set()
        first.result(), second.result()
    assert server.asked == [None] and whole(folder)
    assert lines[1][0] == "cifar10: another process fetches it; waiting" and lines[1][0] not in lines[0]
    assert all("images, official, in" in text[-1] for text in lines)
