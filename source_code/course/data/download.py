"""Download of a large file with pooch, with a progress bar and a checksum."""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from course.data.dataset import DataError

TIMEOUT_S = (6, 20)  # seconds to connect (short, to notice a missing network) and between bytes


@dataclass(frozen=True)
class Archive:
    """A file to download and its checksum."""

    file: str
    address: str
    size_bytes: int
    sha256: str
    mirror: str  # environment variable that overrides the address


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def download(archive: Archive, folder: Path, say: Callable[[str], object]) -> None:
    """Download `archive` into `folder`, replacing a file of that name. The caller holds a lock.

    An address that is a path, or begins with ``file:``, is copied. Raises DataError, and keeps nothing, if there is no
    network or file, the checksum differs or the disk is full.
    """
    import pooch  # slow to import, and seldom needed
    import requests

    pooch.get_logger().setLevel("WARNING")
    local = urlsplit(archive.address).scheme in ("", "file")
    downloader = _copy if local else pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT_S)
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
            f"{archive.address} did not send the official {archive.file} (the checksum differs): perhaps "
            f"a login page of this network. Nothing was kept. Log in with a browser, or set {archive.mirror} to "
            "a mirror, and fetch again."
        ) from error
    except FileNotFoundError as error:
        raise DataError(f"{archive.mirror} names {archive.address}, which does not exist.") from error
    except OSError as error:
        raise DataError(
            f"{folder / archive.file} cannot be written: {error.strerror or error}. Free some space, or set "
            "DDL_DATA_DIR to a folder on another disk, and fetch again."
        ) from error
    say(f"{archive.file}: complete, checksum agrees")


def _copy(address, output, _):
    shutil.copyfile(url2pathname(urlsplit(address).path), output)


def _reason(error):
    """Return the root cause of a network error, which urllib3 and requests both wrap."""
    inner = error.args[0] if error.args else error
    return " ".join(str(getattr(inner, "reason", inner)).split())
