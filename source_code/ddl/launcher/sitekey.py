"""The keys of a site, one by one: what each may be, and how to say what it may be."""

import re

from ddl.errors import CourseError

__all__ = ["CHOICES", "SiteError", "refuse_idle", "seconds", "validated"]

CHOICES = {
    "scheduler": ("local", "slurm", "namespaces"),
    "container": ("none", "docker", "singularity"),
    "controller": ("gloo", "mpi"),
}
LEAST = {"cores_per_node": 1, "gpus_per_node": 0, "nodes": 1, "time_limit_warning_s": 1, "rate_mbit": 0}
WORD = (r"\S+", "one word")
OPTION = (r"-[^\s=]*=.*|\S+", "one word, or --option=text: an option and its value are two items")
# What a text, or each text of a list, has to look like, and how to say that.
FORMS = {
    "partition": WORD,
    "account": WORD,
    "reservation": WORD,
    "time_limit": (
        r"(\d+-\d+|\d+)(:\d+){0,2}",
        "a time as Slurm writes it: minutes, "
        "minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or "
        "days-hours:minutes:seconds",
    ),
    "gpu_option": (
        r"-[^\s{}]*\{n\}[^\s{}]*",
        'one option with {n} where the number of GPUs goes, such as "--gres=gpu:{n}" or "--gpus-per-node={n}"',
    ),
    "gpu_type": (r"[^\s:{}]+", 'a type as Slurm names it, such as "a100"'),
    "scheduler_arguments": OPTION,
    "modules": WORD,
    "binds": (
        r"/[^:,$]*(:/[^:,$]*(:(ro|rw))?)?",
        'absolute paths without variables: "/host", "/host:/inside" or "/host:/inside:ro"',
    ),
    "container_arguments": OPTION,
    "pass_environment": (r"[A-Za-z_][A-Za-z0-9_]*", "the variable's name; its value stays out"),
    "network_interfaces": (r"[^\s,]+", 'one interface, such as "ib0"'),
}
NEVER_EMPTY = ("gpu_option",)
# Keys that mean nothing without something else, so that their being there is a mistake.
NEEDS = {
    ("scheduler", ("slurm",)): (
        "partition",
        "account",
        "reservation",
        "time_limit",
        "time_limit_warning_s",
        "gpu_option",
        "gpu_type",
        "scheduler_arguments",
        "network_interfaces",
    ),
    ("scheduler", ("namespaces",)): ("rate_mbit",),
    ("container", ("docker", "singularity")): ("image", "binds", "container_arguments"),
}


class SiteError(CourseError, ValueError):
    """A site cannot be what its description says, or cannot hold a job.

    Parameters
    ----------
    message : str
    field : str, optional
        The field of `ddl.launcher.site.Site`, and key of the file, that is wrong.
    """

    def __init__(self, message, field=""):
        super().__init__(message)
        self.field = field


def validated(field, value):
    """Return the value of a site's field, a list as a tuple.

    Parameters
    ----------
    field : dataclasses.Field
    value : object
        What a file, or a caller, gives.

    Raises
    ------
    SiteError
        If the field can't be that; the message says what it can be.
    """
    name = field.name

    def refuse(what, problem):
        raise SiteError(f"{name} = {_shown(what)}{problem}", name)

    if field.type is int:
        if type(value) is not int or value < LEAST[name]:
            refuse(value, f": a whole number of at least {LEAST[name]} is needed")
        return value
    if field.type is str:
        if type(value) is not str:
            refuse(value, ": text in quotes is needed")
        if name in CHOICES and value not in CHOICES[name]:
            refuse(value, f" is not one of: {', '.join(CHOICES[name])}")
        texts = (value,) if value or name in NEVER_EMPTY else ()
    else:
        if not isinstance(value, (list, tuple)) or not all(type(text) is str for text in value):
            refuse(value, f': a list of texts is needed, {name} = ["…"]')
        texts = value = tuple(value)
    form, meaning = FORMS.get(name, (".*", ""))
    for text in texts:
        if not re.fullmatch(form, text):
            refuse(text, f" is not {meaning}")
    return value


def refuse_idle(values):
    """Refuse keys that would say nothing: a partition without Slurm, an image without a container.

    Parameters
    ----------
    values : dict
        The keys that a file has.
    """
    for (key, wanted), keys in NEEDS.items():
        chosen = values.get(key, CHOICES[key][0])
        idle = next((name for name in values if name in keys), None)
        if idle and chosen in CHOICES[key] and chosen not in wanted:
            needed = " or ".join(map(_shown, wanted))
            raise SiteError(f"{idle} needs {key} = {needed}; here it is {_shown(chosen)}", idle)


def seconds(time_limit):
    """The seconds of a time as Slurm writes it; 0, which is no limit to Slurm, for an empty one."""
    days, dash, clock = (time_limit or "0").rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if not dash and len(parts) < 3:
        parts.insert(0, 0)  # minutes come first; after days, or with three parts, hours do
    hours, minutes, rest = (*parts, 0, 0)[:3]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + rest


def _shown(value):
    """A value as a site file has it, near enough to find it there."""
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)
