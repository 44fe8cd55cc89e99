"""A site file as it was written: flat TOML, found, read, and every key's line known."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ddl.launcher.sitekey import SiteError
from ddl.records.paths import course_root

__all__ = ["SiteFile", "find"]

NAME = "site.toml"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # what Windows' editors may begin a file with


@dataclass(frozen=True)
class SiteFile:
    """One file, read: its keys' values, and where each of them stands."""

    path: Path
    text: str
    values: dict

    @classmethod
    def read(cls, path):
        """Read `path`.

        Raises
        ------
        SiteError
            If it is not there or not TOML; the message begins with the path and the line.
        """
        try:
            import tomllib
        except ModuleNotFoundError:  # Python 3.10 of the GPU image, where JupyterLab brings it
            import tomli as tomllib
        path = Path(path)
        try:
            raw = path.read_bytes()
            text = raw.decode("utf-16" if raw[:2] in UTF_16 else "utf-8-sig")
            return cls(path, text, tomllib.loads(text))
        except FileNotFoundError:
            raise SiteError(f"{path}: there is no such site file") from None
        except OSError as error:
            raise SiteError(f"{path}: this site file cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise SiteError(f"{path}:{line}: this line is not UTF-8 text; TOML has to be") from None
        except tomllib.TOMLDecodeError as error:
            at = re.search(r" \(at line (\d+), column \d+\)$", str(error))
            line = int(at[1]) if at else len(text.splitlines())
            problem = str(error)[: at.start()] if at else str(error)
            raise SiteError(
                f"{path}:{line}: not valid TOML: {problem}. A line is: key = value, with text in "
                'quotes, a list as ["one", "two"], and each key once'
            ) from None

    def place(self, key):
        """Where `key` stands, ``path:line``; only the path where the file does not have it."""
        stands = re.compile(rf"\s*\[*\s*([\"']?){re.escape(key)}\1\s*[=.\]]")
        for number, line in enumerate(self.text.splitlines(), 1):
            if stands.match(line):
                return f"{self.path}:{number}"
        return str(self.path)


def find():
    """Find the site file that goes without saying.

    Returns
    -------
    tuple of (Path, str) or None
        The file and what makes it the one, in words; None where there is none.

    Raises
    ------
    SiteError
        If ``DDL_SITE`` names a file that is not there.
    """
    named = os.environ.get("DDL_SITE")
    if named:
        path = Path(named).expanduser().absolute()
        if not path.exists():
            raise SiteError(
                f"{path}: DDL_SITE names this site file, and it is not there: mend the variable, or unset it"
            )
        return path, "DDL_SITE"
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    for folder, why in (
        (Path.cwd(), "in the working folder"),
        (course_root(), "in the course's folder"),
        (settings / "ddl", "in your settings"),
    ):
        if (folder / NAME).is_file():
            return folder / NAME, why
    return None
