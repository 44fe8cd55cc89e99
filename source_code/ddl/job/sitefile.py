"""Site files: where they are found, how they are read, and which values their keys may have."""

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddl.errors import CourseError
from ddl.records.paths import course_root, working_dir
from ddl.text import did_you_mean

NAME = "site.toml"


class SiteError(CourseError, ValueError):
    """An invalid site, or a job that does not fit it."""


def read(path: str | Path) -> dict[str, Any]:
    """Return the keys of a site file and their values; SiteError if it is missing or not TOML."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        near = [each.name for each in path.absolute().parent.glob("*.toml")]
        raise SiteError(f"{path}: this site file does not exist{did_you_mean(path.name, near)}") from None
    except OSError as error:
        raise SiteError(f"{path}: this site file cannot be read: {error.strerror}") from None
    except ValueError as error:  # not TOML, or not UTF-8
        rule = 'Write key = value, with text in quotes, lists as ["one", "two"], and each key once'
        raise SiteError(f"{path}: not valid TOML: {error}. {rule}") from None


def find(file: str | Path | None = None) -> tuple[Path, str] | None:
    """Return the site file to use, by default the first that is found, and why it is used."""
    if file:
        return Path(file).expanduser().absolute(), "as asked for"
    if named := os.environ.get("DDL_SITE"):
        return Path(named).expanduser().absolute(), "DDL_SITE"
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    for folder, why in (
        (working_dir(), "in the working folder"),
        (course_root(), "in the course's folder"),
        (settings / "ddl", "in your settings"),
    ):
        if (folder / NAME).is_file():
            return folder / NAME, why
    return None


def key(default: Any, *, choices: tuple[str, ...] = (), least: int = 0, needs: tuple[str, ...] = ()) -> Any:
    """Define a field of `ddl.job.site.Site` that is a key of a site file.

    `choices` are all allowed texts and `least` is the smallest allowed integer. `needs` names another key, and the
    values of it that give this key a meaning: a partition needs Slurm.
    """
    return dataclasses.field(default=default, metadata={"choices": choices, "least": least, "needs": needs})


def keys(site: type) -> dict[str, dataclasses.Field]:
    """Return the fields of a class that were defined with `key`, by name."""
    return {field.name: field for field in dataclasses.fields(site) if field.metadata}


def validated(field: dataclasses.Field, value: Any) -> int | str | tuple[str, ...]:
    """Return the value of a key, with a list as a tuple; raise SiteError if it is not allowed."""
    choices, least = field.metadata["choices"], field.metadata["least"]
    if field.type is int:
        allowed, rule = type(value) is int and value >= least, f"an integer >= {least}"
    elif field.type is str:
        allowed = type(value) is str and (not choices or value in choices)
        rule = f"one of {', '.join(choices)}" if choices else "text in quotes"
    else:
        allowed = isinstance(value, (list, tuple)) and all(type(text) is str for text in value)
        rule = 'a list of texts, ["…"]'
    if not allowed:
        raise SiteError(f"{field.name} must be {rule}, got {shown(value)}")
    return tuple(value) if isinstance(value, list) else value


def refuse_useless(values: Mapping[str, Any], known: Mapping[str, dataclasses.Field]) -> None:
    """Raise SiteError if a key has no meaning without another setting."""
    for name in values:
        other, *wanted = known[name].metadata["needs"] or ("",)
        if other and (chosen := values.get(other, known[other].default)) not in wanted:
            raise SiteError(f"{name} needs {other} = {' or '.join(map(shown, wanted))}; here it is {shown(chosen)}")


def seconds(time_limit: str) -> int:
    """Return the seconds of a time in Slurm's format, 0 (no limit) for an empty one; ValueError if it is not one."""
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
