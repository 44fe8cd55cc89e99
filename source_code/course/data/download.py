"""Downloads one large file so that a break costs nothing but time.

What has arrived is kept in ``<file>.part`` and continued from there; the file gets its name once its checksum agrees.
(pooch and Keras' `get_file` check a file too, but start from its first byte after a break.)
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
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

from course.data.dataset import DataError

CONNECT_S = 6  # until the server's first answer: no network is then noticed in seconds
SILENCE_S = 20  # without a byte in the middle of a download: it is broken, so reconnect
PAUSES_S = (1, 3)  # before each new try that follows one without progress
REPORT_S = 2
CHUNK_BYTES = 1 << 18
NETWORK = (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException)


@dataclass(frozen=True)
class Archive:
    """A file to download, and how to know it."""

    file: str
    address: str
    size_bytes: int
    sha256: str
    mirror: str  # the environment variable that may name another address
    begins: bytes  # no web page begins so


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def download(archive: Archive, folder: Path, say: Callable[[str], object]) -> None:
    """Download `archive` into `folder`; what is there already is replaced at the end. The caller holds a lock.

    DataError, when there is no network, the server sends something else, or the disk is full. What has arrived stays in
    the ``.part`` file, unless it is wrong.
    """
    part = folder / f"{archive.file}.part"
    if _size(part) > archive.size_bytes:
        part.unlink()
    while True:
        resumed, missing = _size(part) > 0, archive.size_bytes - _size(part)
        free = shutil.disk_usage(folder).free
        if free < missing:
            raise DataError(
                f"{folder} has {_mib(free)} free and {archive.file} needs {_mib(missing)} more. "
                "Free some space, or set DDL_DATA_DIR to a folder on another disk."
            )
        try:
            _transfer(archive, part, say)
            if sha256(part) == archive.sha256:
                os.replace(part, folder / archive.file)
                say(f"{archive.file}: complete, checksum agrees")
                return
            part.unlink()
        except OSError as problem:
            raise DataError(
                f"{part} cannot be written: {problem.strerror or problem}. Free some space, or set DDL_DATA_DIR to "
                "a folder on another disk, and fetch again."
            ) from problem
        if not resumed:
            raise DataError(
                f"What {archive.address} sent is not the official {archive.file}: its checksum differs, so it was "
                f"deleted. Fetch again later, or set {archive.mirror} to a mirror of the official file."
            )
        say(f"{archive.file}: the continued download is altered; starting over")


def _transfer(archive: Archive, part: Path, say: Callable[[str], object]) -> None:
    """Fill `part` up to the archive's size, reconnecting while that makes progress."""
    best, failures, connected = _size(part), 0, False
    while _size(part) < archive.size_bytes:
        problem = "the connection ended early"
        try:
            with _connect(archive.address, _size(part)) as response:
                connected = True
                _copy(response, archive, part, say)
        except urllib.error.HTTPError as error:
            raise DataError(
                f"{archive.address} answers {error.code} {_line(error.reason)}. Set {archive.mirror} to a mirror, or "
                f"put {archive.file} into {part.parent} yourself."
            ) from error
        except NETWORK as error:
            problem = _line(getattr(error, "reason", None) or error)
        if _size(part) > best:
            best, failures = _size(part), 0
        elif not connected or failures == len(PAUSES_S):
            kept = f" {_mib(best)} are kept; fetching again continues." if best else ""
            raise DataError(
                f"{archive.file} cannot be downloaded from {urlsplit(archive.address).hostname}: {problem}.{kept} "
                f"Without a network, put the file into {part.parent}, set DDL_DATA_DIR to a folder that has it, or "
                "use the data set `synthetic`."
            )
        else:
            time.sleep(PAUSES_S[failures])
            failures += 1


def _connect(address: str, start: int) -> HTTPResponse:
    """Ask for the file from byte `start` on, and wait for the answer for a few seconds only."""
    request = urllib.request.Request(address, headers={"User-Agent": "ddl-course"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    responses: queue.SimpleQueue[HTTPResponse | Exception] = queue.SimpleQueue()

    def ask():
        try:
            responses.put(urllib.request.urlopen(request, timeout=SILENCE_S))
        except ValueError as problem:  # of an address that it was led on to
            responses.put(urllib.error.URLError(problem))
        except Exception as problem:
            responses.put(problem)

    # In a thread, since looking up a name without a network takes as long as it likes.
    threading.Thread(target=ask, daemon=True).start()
    try:
        response = responses.get(timeout=CONNECT_S)
    except queue.Empty:
        raise TimeoutError(f"no answer in {CONNECT_S} s") from None
    if isinstance(response, Exception):
        raise response
    return response


def _copy(response: HTTPResponse, archive: Archive, part: Path, say: Callable[[str], object]) -> None:
    """Write a response to `part`, at the place that the server says it begins."""
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if response.status == 206 and span:
        start, total = int(span[1]), span[2]
    else:  # the server ignores ranges and sends the whole file
        start, total = 0, response.headers.get("Content-Length", "*")
    chunk = _receive(response)
    if start:
        is_page = "html" in response.headers.get("Content-Type", "")
    else:
        is_page = bool(chunk) and not chunk.startswith(archive.begins)
    if is_page or total not in ("*", str(archive.size_bytes)) or start > _size(part):
        raise DataError(
            f"{archive.address} sends something else than the official {archive.file}: perhaps a login page of this "
            f"network, or a message of the server. Log in with a browser, or set {archive.mirror} to a mirror, and "
            "fetch again. Nothing of it was kept."
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
            chunk = _receive(response) if done < archive.size_bytes else b""


def _receive(response: HTTPResponse) -> bytes:
    """Read on; what fails here is the network's fault and not the disk's, and says so."""
    try:
        return response.read(CHUNK_BYTES)
    except OSError as problem:
        raise ConnectionError(problem.strerror or str(problem)) from problem


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / 2**20:.1f} MiB"


def _line(text: object) -> str:
    return " ".join(str(text).split())
