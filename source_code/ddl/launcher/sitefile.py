"""Site files: where they are found, how they are read, and which values their keys may have."""

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ddl.errors import CourseError
from ddl.records import toml
from ddl.records.paths import course_root, working_dir
from ddl.text import did_you_mean

NAME = "site.toml"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks, written by some Windows editors


class SiteError(CourseError, ValueError):
    """An invalid site, or a job that does not fit it; `field` is the field of `Site` that is wrong."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class SiteFile:
    """The text and the values of one file."""

    path: Path
    text: str
    values: dict

    @classmethod
    def read(cls, path: str | Path) -> "SiteFile":
        """Read a file; raise SiteError with its path and line if it is missing or not TOML."""
        path = Path(path)
        try:
            raw = path.read_bytes()
            text = raw.decode("utf-16" if raw[:2] in UTF_16 else "utf-8-sig")
            return cls(path, text, toml.loads(text))
        except FileNotFoundError:
            near = [each.name for each in path.absolute().parent.glob("*.toml")]
            raise SiteError(f"{path}: this site file does not exist{did_you_mean(path.name, near)}") from None
        except OSError as error:
            raise SiteError(f"{path}: this site file cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise SiteError(f"{path}:{line}: this line is not UTF-8 text, which TOML requires") from None
        except toml.TOMLDecodeError as error:
            problem, _, at = str(error).partition(" (at line ")
            line = int(at.split(",")[0]) if at else len(text.splitlines())
            rule = 'Write key = value, with text in quotes, lists as ["one", "two"], and each key once'
            raise SiteError(f"{path}:{line}: not valid TOML: {problem}. {rule}") from None

    def location(self, key: str) -> str:
        """Return ``path:line`` of a key, or just the path if the file does not contain it."""
        stands = re.compile(rf"\s*\[*\s*([\"']?){re.escape(key)}\1\s*[=.\]]")
        for number, line in enumerate(self.text.splitlines(), 1):
            if stands.match(line):
                return f"{self.path}:{number}"
        return str(self.path)


def find() -> tuple[Path, str] | None:
    """Return the default site file, and where it was found."""
    named = os.environ.get("DDL_SITE")
    if named:
        path = Path(named).expanduser().absolute()
        if not path.exists():
            raise SiteError(f"{path}: this site file does not exist; fix or unset the variable DDL_SITE")
        return path, "DDL_SITE"
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    for folder, why in (
        (working_dir(), "in the working folder"),
        (course_root(), "in the course's folder"),
        (settings / "ddl", "in your settings"),
    ):
        if (folder / NAME).is_file():
            return folder / NAME, why
    return None


RULES: dict[str, Any] = {
    "choices": (),  # all allowed texts
    "least": 0,  # the smallest allowed integer
    "form": (".*", ""),  # a pattern for a text or for each text of a list, and its description
    "needs": (),  # another key, and the values of it that give this key a meaning
}


def key(default: Any, **rules: Any) -> Any:
    """Define a field of `ddl.launcher.site.Site` that is a key of a site file, with rules as in `RULES`."""
    return dataclasses.field(default=default, metadata={**RULES, **rules})


def keys(site: type) -> dict[str, dataclasses.Field]:
    """Return the fields of a class that were defined with `key`, by name."""
    return {field.name: field for field in dataclasses.fields(site) if field.metadata}


def validated(field: dataclasses.Field, value: Any) -> int | str | tuple[str, ...]:
    """Return the value of a key, with a list as a tuple; raise SiteError if it is not allowed."""
    name, rules = field.name, field.metadata

    def refuse(wrong: Any, problem: str) -> NoReturn:
        raise SiteError(f"{name} {problem}, got {shown(wrong)}", name)

    if field.type is int:
        if type(value) is not int or value < rules["least"]:
            refuse(value, f"must be an integer >= {rules['least']}")
        return value
    if field.type is str:
        if type(value) is not str:
            refuse(value, "must be text in quotes")
        if rules["choices"] and value not in rules["choices"]:
            refuse(value, f"must be one of {', '.join(rules['choices'])}")
        texts: tuple[str, ...] = (value,) if value or field.default else ()
    else:
        if not isinstance(value, (list, tuple)) or not all(type(text) is str for text in value):
            refuse(value, 'must be a list of texts, ["…"]')
        texts = value = tuple(value)
    form, words = rules["form"]
    for text in texts:
        if not re.fullmatch(form, text):
            refuse(text, f"must be {words}")
    return value


def needed(field: dataclasses.Field, values: Mapping, known: Mapping[str, dataclasses.Field]) -> str:
    """Return which other setting a key needs but does not have (a partition needs Slurm); empty if none."""
    other, *wanted = field.metadata["needs"] or ("",)
    if not other or (chosen := values.get(other, known[other].default)) in wanted:
        return ""
    return f"{field.name} needs {other} = {' or '.join(map(shown, wanted))}; here it is {shown(chosen)}"


def seconds(time_limit: str) -> int:
    """Return the seconds of a time in Slurm's format; 0, which means no limit, for an empty one."""
    days, dash, clock = (time_limit or "0").rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if not dash and len(parts) < 3:
        parts.insert(0, 0)  # minutes come first; after days, or with three parts, hours do
    hours, minutes, rest = (*parts, 0, 0)[:3]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + rest


def shown(value: Any) -> str:
    """Return a value in about the form in which a site file contains it."""
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)
