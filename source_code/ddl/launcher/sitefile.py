"""Site files: flat TOML, found and read, with each key's line known; and what a key may be."""

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
from ddl.words import did_you_mean

NAME = "site.toml"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # what Windows' editors may begin a file with


class SiteError(CourseError, ValueError):
    """A site cannot be what its description says, or cannot hold a job; `field` is the one of `Site` that is wrong."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class SiteFile:
    """One file: its keys' values, and where each of them stands."""

    path: Path
    text: str
    values: dict

    @classmethod
    def read(cls, path: str | Path) -> "SiteFile":
        """Read a file; SiteError, with its path and line, if it is not there or not TOML."""
        path = Path(path)
        try:
            raw = path.read_bytes()
            text = raw.decode("utf-16" if raw[:2] in UTF_16 else "utf-8-sig")
            return cls(path, text, toml.loads(text))
        except FileNotFoundError:
            near = [each.name for each in path.absolute().parent.glob("*.toml")]
            raise SiteError(f"{path}: there is no such site file{did_you_mean(path.name, near)}") from None
        except OSError as error:
            raise SiteError(f"{path}: this site file cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise SiteError(f"{path}:{line}: this line is not UTF-8 text, which TOML has to be") from None
        except toml.TOMLDecodeError as error:
            problem, _, at = str(error).partition(" (at line ")
            line = int(at.split(",")[0]) if at else len(text.splitlines())
            rule = 'A line is: key = value, with text in quotes, a list as ["one", "two"], and each key once'
            raise SiteError(f"{path}:{line}: not valid TOML: {problem}. {rule}") from None

    def location(self, key: str) -> str:
        """Where `key` stands, ``path:line``; only the path where the file does not have it."""
        stands = re.compile(rf"\s*\[*\s*([\"']?){re.escape(key)}\1\s*[=.\]]")
        for number, line in enumerate(self.text.splitlines(), 1):
            if stands.match(line):
                return f"{self.path}:{number}"
        return str(self.path)


def find() -> tuple[Path, str] | None:
    """Find the site file to use where none is asked for; return it and, in words, why it is the one."""
    named = os.environ.get("DDL_SITE")
    if named:
        path = Path(named).expanduser().absolute()
        if not path.exists():
            raise SiteError(f"{path}: DDL_SITE names this site file, and it is not there: fix or unset the variable")
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


# ---------------------------------------------------------------- keys


RULES: dict[str, Any] = {
    "choices": (),  # all values of a text
    "least": 0,  # of a whole number
    "form": (".*", ""),  # what a text, or each text of a list, has to match, and how to say so
    "needs": (),  # another key, and those of its values without which this key would say nothing
}


def key(default: Any, **rules: Any) -> Any:
    """A field of `ddl.launcher.site.Site` that is a key of a site file, with some of `RULES`."""
    return dataclasses.field(default=default, metadata={**RULES, **rules})


def keys(site: type) -> dict[str, dataclasses.Field]:
    """Return the fields of a class that `key` describes, by name."""
    return {field.name: field for field in dataclasses.fields(site) if field.metadata}


def validated(field: dataclasses.Field, value: Any) -> int | str | tuple[str, ...]:
    """Return the value of a key, a list as a tuple; raise `SiteError` with what it can be."""
    name, rules = field.name, field.metadata

    def refuse(wrong: Any, problem: str) -> NoReturn:
        raise SiteError(f"{name} = {shown(wrong)}{problem}", name)

    if field.type is int:
        if type(value) is not int or value < rules["least"]:
            refuse(value, f": a whole number of at least {rules['least']} is needed")
        return value
    if field.type is str:
        if type(value) is not str:
            refuse(value, ": text in quotes is needed")
        if rules["choices"] and value not in rules["choices"]:
            refuse(value, f" is not one of: {', '.join(rules['choices'])}")
        texts: tuple[str, ...] = (value,) if value or field.default else ()
    else:
        if not isinstance(value, (list, tuple)) or not all(type(text) is str for text in value):
            refuse(value, f': a list of texts is needed, {name} = ["…"]')
        texts = value = tuple(value)
    form, words = rules["form"]
    for text in texts:
        if not re.fullmatch(form, text):
            refuse(text, f" is not {words}")
    return value


def needed(field: dataclasses.Field, values: Mapping, known: Mapping[str, dataclasses.Field]) -> str:
    """Say what a key needs that is not among the values: a partition Slurm, an image a container; else empty."""
    other, *wanted = field.metadata["needs"] or ("",)
    if not other or (chosen := values.get(other, known[other].default)) in wanted:
        return ""
    return f"{field.name} needs {other} = {' or '.join(map(shown, wanted))}; here it is {shown(chosen)}"


def seconds(time_limit: str) -> int:
    """The seconds of a time as Slurm writes it; 0, which is no limit to Slurm, for an empty one."""
    days, dash, clock = (time_limit or "0").rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if not dash and len(parts) < 3:
        parts.insert(0, 0)  # minutes come first; after days, or with three parts, hours do
    hours, minutes, rest = (*parts, 0, 0)[:3]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + rest


def shown(value: Any) -> str:
    """A value as a site file has it, near enough to find it there."""
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)
