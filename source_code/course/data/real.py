"""Real image data sets: downloaded, decoded once, then mapped into memory."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from course.data import store
from course.data.dataset import DamagedData, DataError, DataSet, OtherFormat
from course.data.download import Archive, sha256

VERSION = 1  # of the decoded arrays; increase it to have stored ones decoded again


@dataclass
class RealSet:
    """A real data set: its name, title, official files and decoder.

    `decode` returns the arrays of a `DataSet`, by name, from the paths of the files, and optionally its ``form`` and
    ``class_names``. Without them, the form is official if the checksums agree, and the class names are the ones given
    here. An `unpacked` folder can replace the files.
    """

    name: str
    title: str
    files: tuple[Archive, ...]
    decode: Callable[[list[Path]], dict]
    class_names: tuple[str, ...] = ()
    unpacked: str | None = None
    others: tuple[str, ...] = ()  # files of the same data in unsupported formats, as patterns

    def archives(self) -> list[Archive]:
        """Return what to download, from the mirror in the environment or the official site.

        A mirror is the address of the file, or of the folder if there are several files.
        """
        mirror = os.environ.get(self.files[0].mirror)
        if not mirror:
            return list(self.files)
        if len(self.files) == 1:
            return [replace(self.files[0], address=mirror)]
        return [replace(file, address=f"{mirror.rstrip('/')}/{file.file}") for file in self.files]

    def sources(self, folder: Path) -> list[Path]:
        """Return the files in `folder`, or the unpacked folder; an empty list if one is missing."""
        paths = [folder / file.file for file in self.files]
        if all(path.exists() for path in paths):
            return paths
        return [folder / self.unpacked] if self.unpacked and (folder / self.unpacked).exists() else []

    def mapped(self, folder: Path) -> Path:
        """Return the path of the decoded arrays."""
        return folder / f"{self.name}.npy"

    def source(self, folder: Path) -> str:
        """Return a fingerprint of the sources of `read`. Raises DataError if they are missing."""
        paths = self.sources(folder)
        if not paths:
            other = next((path.name for name in self.others for path in folder.glob(name)), None)
            if other:
                raise OtherFormat(
                    f"{folder} has {other}, which is {self.title} in another format. Put {self.files[0].file} there, "
                    f"or run `ddl data fetch {self.name}` to download it."
                )
            holds = " and ".join(file.file for file in self.files) + (f" or {self.unpacked}" if self.unpacked else "")
            raise DataError(
                f"{self.title} is not in {folder}. Run `ddl data fetch {self.name}` to download it, set DDL_DATA_DIR "
                f"to a folder that holds {holds}, or use the data set `synthetic`."
            )
        files = [each for path in paths for each in (sorted(path.iterdir()) if path.is_dir() else [path])]
        return store.fingerprint(files, VERSION)

    def read(self, folder: Path) -> DataSet:
        """Return the whole data set.

        The first call stores the arrays next to the sources if the folder is writable. Later calls map that file until
        a source changes. Raises DataError if a source is missing or damaged.
        """
        arrays = store.kept(self.mapped(folder), self.source(folder), lambda: self._decoded(self.sources(folder)))
        return DataSet.of(self.name, arrays, self.class_names or tuple(str(arrays["class_names"]).splitlines()))

    def _decoded(self, paths):
        arrays = self.decode(paths)
        if "form" not in arrays:
            official = all(sha256(path) == file.sha256 for path, file in zip(paths, self.files, strict=True))
            arrays["form"] = "official" if official else "official layout, unverified"
        return arrays


def damaged(name: str, where: object, what: str) -> DamagedData:
    """Return the error for a damaged file of a real data set."""
    return DamagedData(f"{where} is damaged: {what}. Run `ddl data fetch {name}` to download the official file.")
