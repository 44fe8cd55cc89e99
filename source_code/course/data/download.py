"""Downloads one large file with pooch: with progress, and under its name only once its checksum agrees."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from course.data.dataset import DataError

TIMEOUT_S = (6, 20)  # to connect, so that a missing network is noticed in seconds; without a byte


@dataclass(frozen=True)
class Archive:
    """A file to download, and how to know it."""

    file: str
    address: str
    size_bytes: int
    sha256: str
    mirror: str  # the environment variable that may name another address


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def download(archive: Archive, folder: Path, say: Callable[[str], object]) -> None:
    """Download `archive` into `folder`, where it replaces what has its name. The caller holds a lock.

    DataError, when there is no network, the server sends something else, or the disk is full; nothing of it is kept.
    """
    import pooch  # takes a while, and is seldom needed
    import requests

    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT_S)
    try:
        pooch.retrieve(archive.address, f"sha256:{archive.sha256}", archive.file, folder, downloader=downloader)
    except requests.HTTPError as error:
        raise DataError(
            f"{archive.address} answers {error.response.status_code} {error.response.reason}. Set {archive.mirror} to "
            f"a mirror, or put {archive.file} into {folder} yourself."
        ) from error
    except requests.RequestException as error:
        raise DataError(
            f"{archive.file} cannot be downloaded from {urlsplit(archive.address).hostname}: {_reason(error)}. "
            f"Without a network, put the file into {folder}, set DDL_DATA_DIR to a folder that has it, or use the data "
            "set `synthetic`."
        ) from error
    except ValueError as error:
        raise DataError(
            f"{archive.address} sends something else than the official {archive.file} (the checksum differs): perhaps "
            f"a login page of this network. Nothing of it was kept. Log in with a browser, or set {archive.mirror} to "
            "a mirror, and fetch again."
        ) from error
    except OSError as error:
        raise DataError(
            f"{folder / archive.file} cannot be written: {error.strerror or error}. Free some space, or set "
            "DDL_DATA_DIR to a folder on another disk, and fetch again."
        ) from error
    say(f"{archive.file}: complete, checksum agrees")


def _reason(error):
    """Return the cause of a network's error, which urllib3 wraps and requests wraps again."""
    inner = error.args[0] if error.args else error
    return " ".join(str(getattr(inner, "reason", inner)).split())
