"""Fetching over a real loopback server: whole, broken, altered, twice at once, and not at all."""

import http.server
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from ddl.data import DataError, cifar10, download, fetch, listing, load
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
def small(monkeypatch):
    """Make the small archive the official one, and pauses and pieces small."""
    monkeypatch.setattr(cifar10, "ARCHIVE", OFFICIAL)
    monkeypatch.setattr(download, "CHUNK_BYTES", 10_000)
    monkeypatch.setattr(download, "PAUSES_S", (0.05, 0.05))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def whole(folder):
    path = folder / FILE
    return path.exists() and path.read_bytes() == ARCHIVE and not part(folder).exists()


def part(folder):
    return folder / f"{FILE}.part"


def test_fetch_downloads_once_and_then_finds_it(folder, server, monkeypatch):
    monkeypatch.setenv("DDL_CIFAR10_URL", server.address)
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
    "begun earlier": (ARCHIVE[:70_000], {}, ["bytes=70000-"]),
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
    fetch("cifar10", str, server.address)
    assert whole(folder) and server.asked == asked


def test_connection_that_always_breaks_ends_with_what_is_kept(folder, server):
    server.breaks_after = (50_000,) + (0,) * 9
    with pytest.raises(DataError, match="ended early. 0.0 MiB are kept; fetching again continues"):
        fetch("cifar10", str, server.address)
    assert len(server.asked) == 4 and part(folder).stat().st_size == 50_000
    server.breaks_after = ()
    fetch("cifar10", str, server.address)
    assert whole(folder)


@pytest.mark.parametrize("damaged", [ARCHIVE[:-100], ARCHIVE[:500] + b"?" + ARCHIVE[501:]], ids=["cut", "altered"])
def test_a_damaged_archive_is_named_and_fetched_again(folder, server, damaged):
    (folder / FILE).write_bytes(damaged)
    with pytest.raises(DataError, match=f"{folder / FILE} is damaged.*not the official"):
        load("cifar10")
    entry = listing()[0]
    assert not entry.there and "damaged" in entry.form
    lines = []
    fetch("cifar10", lines.append, server.address)
    assert whole(folder) and f"{folder / FILE} is damaged" in lines[0]


def test_damaged_archive_stays_until_the_new_one_is_whole(folder, server):
    (folder / FILE).write_bytes(b"damaged")
    server.status = 503
    with pytest.raises(DataError, match="answers 503.*DDL_CIFAR10_URL"):
        fetch("cifar10", str, server.address)
    assert (folder / FILE).read_bytes() == b"damaged"


PAGES = {  # content, type, whether its length is given
    "short": (b"<html>Please log in</html>", "text/html", True),
    "of no type": (b"\xef\xbb\xbf \r\n<!DOCTYPE html><title>Log in</title>", None, True),
    "as long as the archive": (b"<html>".ljust(len(ARCHIVE)), "text/html; charset=utf-8", True),
    "longer than the archive": (b"<html>".ljust(2 * len(ARCHIVE)), "application/octet-stream", False),
    "text": (b"Please log in", "text/plain", False),
    "JSON": (b'{"error": "log in"}', "application/json", False),
    "packed markup": (b"\x1f\x8b packed markup", "text/html", False),
    "JSON of no type": (b'{"error": "log in"}', None, False),
    "UTF-8": ("Access denied – quota exceeded".encode(), "application/octet-stream", False),
    "UTF-16": ("<!doctype html>".encode("utf-16"), None, False),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_web_page_is_named_and_what_was_there_is_kept(folder, server, page):
    server.ranges = False
    server.content, server.type, server.length = PAGES[page]
    for kept in (0, 70_000):
        server.asked.clear()
        part(folder).write_bytes(ARCHIVE[:kept])
        with pytest.raises(DataError, match="answers with a web page instead of .*DDL_CIFAR10_URL"):
            fetch("cifar10", str, server.address)
        assert len(server.asked) == 1 and part(folder).read_bytes() == ARCHIVE[:kept]


@pytest.mark.parametrize("page", [(b"Log in", "text/html"), (b"\xef\xbb\xbf\n<HTML>Log in", None), (b"<?xml ?>", None)])
def test_a_page_as_the_rest_of_an_archive_is_named_and_not_asked_for_again(folder, server, page):
    server.content, server.type = (ARCHIVE[:70_000] + page[0]).ljust(len(ARCHIVE)), page[1]
    part(folder).write_bytes(ARCHIVE[:70_000])
    with pytest.raises(DataError, match="answers with a web page instead of"):
        fetch("cifar10", str, server.address)
    assert len(server.asked) == 1 and part(folder).read_bytes() == ARCHIVE[:70_000]


REFUSED = {
    "altered": ({"content": ARCHIVE[:-1] + b"?"}, "not the official .*checksum differs, so it was deleted"),
    "another file": ({"content": b"PK another archive"}, "offers 18 bytes.*it is another file"),
    "in circles": ({"status": 302, "leads_to": "/again"}, "answers 302 .*infinite loop"),
    "to no address": ({"status": 302, "leads_to": "http://[wrong/a"}, "Invalid IPv6 URL"),
    "to a local file": ({"status": 302, "leads_to": "file:///etc/hostname"}, "answers 302 .*not allowed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_the_archive_is_refused_in_one_line_and_not_kept(folder, server, case):
    behaviour, message = REFUSED[case]
    vars(server).update(behaviour)
    with pytest.raises(DataError, match=message) as caught:
        fetch("cifar10", str, server.address)
    assert "\n" not in str(caught.value) and os.listdir(folder) == ["cifar10.lock"]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/a", "http://no-such-host.invalid/a"])
def test_no_network_is_noticed_at_once(folder, address):
    with pytest.raises(DataError, match="cannot be downloaded from.*DDL_DATA_DIR.*`synthetic`"):
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
    assert not (folder / FILE).exists()


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
    printed = second.stdout.readline()
    server.goes_on.set()
    printed = [first.communicate(timeout=60)[0], printed + second.communicate(timeout=60)[0]]
    assert [first.returncode, second.returncode] == [0, 0]
    assert server.asked == [None] and whole(folder)
    assert ["another process fetches it; waiting" in text for text in printed] == [False, True]
    assert all("pictures, official, in" in text for text in printed)
