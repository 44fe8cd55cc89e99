"""Downloads one large file so that a break costs nothing but time.

What has arrived is kept in ``<file>.part`` and continued from there; the file gets its name only
after its checksum agrees. Proxy settings of the environment are followed (``urllib`` does that).
"""

import hashlib
import http.client
import os
import queue
import re
import shutil
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from ddl.data.dataset import DataError

__all__ = ["Archive", "download", "sha256"]

CONNECT_S = 6  # Until the server's first answer: no network is then noticed in seconds.
SILENCE_S = 20  # Without a byte in the middle of a download: it is broken, so reconnect.
PAUSES_S = (1, 3)  # Before each new try that follows one without progress.
REPORT_S = 2
CHUNK_BYTES = 1 << 18
BLANKS = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n\f"  # and the marks that begin UTF-8 and UTF-16
PAGE = re.compile(rb"[\xef\xbb\xbf\s]*<(?:!doctype html|html|head|\?xml)\b", re.IGNORECASE)
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # bytes that no text has
NETWORK = (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException)


@dataclass(frozen=True)
class Archive:
    """A file to download, and how to know it."""

    file: str
    address: str
    size_bytes: int
    sha256: str
    mirror: str  # the environment variable that may name another place to get it from

    def at(self, address):
        """Return the same file at another address."""
        return replace(self, address=address)


def sha256(path):
    """Return the SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(archive, folder, say):
    """Download `archive` into `folder`; what is there already is replaced at the end.

    One process at a time: the caller holds a lock.

    Parameters
    ----------
    archive : Archive
    folder : Path
    say : callable
        Called with a line of text about every two seconds.

    Raises
    ------
    DataError
        When there is no network, the server sends something else, or the disk is full. What has
        arrived stays in the ``.part`` file, unless it is wrong.
    """
    path, part = folder / archive.file, folder / f"{archive.file}.part"
    if _size(part) > archive.size_bytes:
        part.unlink()
    while True:
        resumed = _size(part) > 0
        free = shutil.disk_usage(folder).free
        if free < archive.size_bytes - _size(part):
            raise DataError(
                f"{folder} has {_mib(free)} free and {archive.file} needs "
                f"{_mib(archive.size_bytes - _size(part))} more. Free some space, or set "
                "DDL_DATA_DIR to a folder on another disk."
            )
        try:
            _transfer(archive, part, say)
            if sha256(part) == archive.sha256:
                os.replace(part, path)
                say(f"{archive.file}: complete, checksum agrees")
                return
            part.unlink()
        except OSError as problem:
            raise DataError(
                f"{part} can not be written: {problem.strerror or problem}. Free some space, or "
                "set DDL_DATA_DIR to a folder on another disk, and fetch again."
            ) from problem
        if not resumed:
            raise DataError(
                f"What {archive.address} sent is not the official {archive.file}: its checksum "
                f"differs, so it was deleted. Fetch again later, or set {archive.mirror} to a "
                "mirror of the official file."
            )
        say(f"{archive.file}: the continued download is altered; starting over")


def _transfer(archive, part, say):
    """Fill `part` up to the archive's size, reconnecting while that makes progress."""
    best, failures = _size(part), 0
    connected = False
    while _size(part) < archive.size_bytes:
        problem = "the connection ended early"
        try:
            with _connect(archive.address, _size(part)) as answer:
                connected = True
                _copy(answer, archive, part, say)
        except urllib.error.HTTPError as error:
            raise DataError(
                f"{archive.address} answers {error.code} {' '.join(str(error.reason).split())}. "
                f"Set {archive.mirror} to a mirror, or put {archive.file} into {part.parent} "
                "yourself."
            ) from error
        except NETWORK as error:
            problem = " ".join(str(getattr(error, "reason", None) or error).split())
        if _size(part) > best:
            best, failures = _size(part), 0
        elif not connected or failures == len(PAUSES_S):
            host = urlsplit(archive.address).hostname
            kept = f" {_mib(best)} are kept; fetching again continues." if best else ""
            raise DataError(
                f"{archive.file} can not be downloaded from {host}: {problem}.{kept} Without a "
                f"network, put the file into {part.parent}, set DDL_DATA_DIR to a folder that "
                "has it, or use the data set `synthetic`."
            )
        else:
            time.sleep(PAUSES_S[failures])
            failures += 1


def _connect(address, start):
    """Ask for the file from byte `start` on, and wait for the answer for a few seconds only."""
    request = urllib.request.Request(address, headers={"User-Agent": "ddl-course"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    answers = queue.SimpleQueue()

    def ask():
        try:
            answers.put(urllib.request.urlopen(request, timeout=SILENCE_S))
        except ValueError as problem:  # of an address that it was led on to
            answers.put(urllib.error.URLError(problem))
        except Exception as problem:
            answers.put(problem)

    # In a thread, since looking up a name without a network takes as long as it likes.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=CONNECT_S)
    except queue.Empty:
        raise TimeoutError(f"no answer in {CONNECT_S} s") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _copy(answer, archive, part, say):
    """Write an answer to `part`, at the place that the server says it begins."""
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
    if answer.status == 206 and span:
        start, total = int(span[1]), span[2]
    else:  # The server ignores ranges and sends the whole file.
        start, total = 0, answer.headers.get("Content-Length", "*")
    chunk = _receive(answer)
    if _is_page(answer, chunk, start):
        raise DataError(
            f"{archive.address} answers with a web page instead of {archive.file}: a login page of "
            f"this network, or a message of the server. Log in with a browser, or set "
            f"{archive.mirror} to a mirror, and fetch again. Nothing of the page was kept."
        )
    if total not in ("*", str(archive.size_bytes)) or start > _size(part):
        raise DataError(
            f"{archive.address} offers {total} bytes and the official {archive.file} has "
            f"{archive.size_bytes}: it is another file. Set {archive.mirror} to a mirror of the "
            "official one."
        )
    began, reported, done = time.monotonic(), 0.0, start
    with open(part, "r+b" if start else "wb") as file:
        file.seek(start)
        while chunk:
            file.write(chunk)
            done += len(chunk)
            now = time.monotonic()
            if now - reported > REPORT_S or done == archive.size_bytes:
                reported = now
                rate = (done - start) / max(now - began, 1e-3)
                say(f"{archive.file}: {_mib(done)} of {_mib(archive.size_bytes)}, {_mib(rate)}/s")
            chunk = _receive(answer) if done < archive.size_bytes else b""


def _is_page(answer, chunk, start):
    """Whether an answer is a page for people, in place of the file or of its rest.

    That is markup or, at the file's beginning, text of a length that nobody told. The rest of an
    archive may begin with any byte.
    """
    told = answer.headers.get_content_type() if "Content-Type" in answer.headers else ""
    if start:
        return told in ("text/html", "application/xhtml+xml") or bool(PAGE.match(chunk))
    return (
        chunk.lstrip(BLANKS).startswith(b"<")
        or "Content-Length" not in answer.headers
        and (
            told.startswith("text/")
            or told in ("application/json", "application/xhtml+xml")
            or bool(chunk)
            and not CONTROL.search(chunk)
        )
    )


def _receive(answer):
    """Read on; what fails here is the network's fault and not the disk's, and says so."""
    try:
        return answer.read(CHUNK_BYTES)
    except OSError as problem:
        raise ConnectionError(problem.strerror or str(problem)) from problem


def _size(path):
    return path.stat().st_size if path.exists() else 0


def _mib(size_bytes):
    return f"{size_bytes / 2**20:.1f} MiB"
