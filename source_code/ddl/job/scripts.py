"""A job's script, found by its path or name, and the arguments that keywords become."""

import ast
import os
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from ddl import plugins
from ddl.job.job import MODULE, JobError
from ddl.text import did_you_mean

OTHERS = {
    ".ipynb": "launch works inside a notebook; a notebook runs with papermill or `jupyter execute`",
    ".sh": "name the Python script that it starts",
    ".pyz": "unpack it, and name the script in it",
    ".pyc": "name the .py file",
}
STREAM = re.compile("-|/dev/stdin|(/dev|/proc/self)/fd/.*")  # process substitution gives /dev/fd/63


def resolve_script(script: str | Path, cwd: str | Path) -> str:
    """Return the absolute path of `script`, looked for in `cwd` and then in `script_folders`; ``-m MODULE`` as it is.

    JobError lists the known scripts if it is in neither or is a directory.
    """
    if str(script).startswith(MODULE):
        name = str(script).removeprefix(MODULE).strip()
        if not re.fullmatch(r"\w[\w-]*(\.\w[\w-]*)*", name):
            raise JobError(f"-m needs a module's name such as package.module, got {name!r}")
        return MODULE + name
    if not isinstance(script, (str, Path)):
        raise JobError(f"script must be a path or a name, got {script!r}")
    if hint := OTHERS.get(Path(script).suffix):
        raise JobError(f"{script} is not a Python script: {hint}")
    for folder in chain([Path(cwd)], script_folders()):
        path = folder / Path(script).expanduser()
        if path.is_dir():
            raise JobError(f"{path} is a directory, not a script")
        if STREAM.fullmatch(str(script)) or (path.exists() and not path.is_file()):
            raise JobError(f"{script} can be read only once, and every rank reads the script: save it as a file")
        if path.is_file():
            return str(path.absolute())
    if gone := plugins.removed(str(script)):
        raise JobError(gone)
    known = sorted(file.name for folder in script_folders() for file in folder.glob("*.py"))
    local = sorted(file.name for file in Path(cwd).glob("*.py"))
    if re.fullmatch(r"python[\d.]*", Path(script).name):
        raise JobError(f"no script {str(script)!r} in {cwd}: leave it out, as `ddl run train.py` starts Python itself")
    hint = did_you_mean(str(script), [*local, *known]) or f"; scripts found by name: {', '.join(known)}"
    raise JobError(f"no script {str(script)!r} in {cwd}{hint}")


IMPORT = re.compile(r"^\s*(?:import|from)\s+([\w.]+)", re.MULTILINE)
STRATEGY = re.compile(r"distribute\.(?:experimental\.)?(MultiWorkerMirrored|ParameterServer)Strategy\(")
CLUSTER_OF = {"MultiWorkerMirrored": "multi_worker", "ParameterServer": "parameter_server"}


def cluster_of(script: str) -> tuple[str, str]:
    """Return the cluster that a script's text asks for, and why: ("torchrun", "imports torch and not horovod").

    Horovod's, for no reason, if the text says nothing else, or the script is a module or cannot be read.
    """
    try:
        text = Path(script).read_text(errors="replace")
    except OSError:
        return "horovod", ""
    packages = {name.partition(".")[0] for name in IMPORT.findall(text)}
    if "horovod" in packages:
        return "horovod", ""
    if strategy := STRATEGY.search(text):
        return CLUSTER_OF[strategy[1]], f"makes a {strategy[1]}Strategy"
    if "torch" in packages and "tensorflow" not in packages:
        return "torchrun", "imports torch and not horovod"
    return "horovod", ""


# Packages that a script imports in no time. Those of the standard library that import others by name are left out.
LIGHT = sys.stdlib_module_names - {"importlib", "pkgutil", "runpy"} | {"ddl", "numpy"}
BY_NAME = ("__import__", "eval", "exec")


def is_light(script: str) -> bool:
    """Return whether a script surely imports nothing but the standard library, NumPy and ddl; False if in doubt.

    Modules that it imports from its own folder are read too. Packages there, and `-m MODULE`, are in doubt.
    """
    folder = Path(os.path.realpath(script)).parent
    unread, seen = [Path(script)], set[str]()
    while unread:
        try:
            tree = ast.parse(unread.pop().read_bytes())
        except SyntaxError:  # before its first import
            continue
        except (OSError, RecursionError, ValueError):
            return False
        for name in set(_imported(tree)) - seen:
            seen.add(name)
            if (beside := folder / f"{name}.py").is_file():
                unread.append(beside)
            elif name not in LIGHT or (folder / name).is_dir():
                return False
    return True


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the top-level packages that a file imports anywhere; "" for an unknown one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else str(node.module).partition(".")[0]
        elif isinstance(node, ast.Name) and node.id in BY_NAME:
            yield ""


def script_folders() -> Iterator[Path]:
    """Yield the folders whose scripts are found by name: this package's, and those of plugins."""
    yield Path(__file__).parents[1] / "scripts"
    for folders in plugins.each("script_folders"):
        yield from folders()


def option_arguments(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Turn keyword options into command-line arguments.

    ``recipe="warmup", sync_bn=True, seed=None`` gives ``("--recipe", "warmup", "--sync-bn")``: True is a bare flag,
    False and None leave the option out, and a list gives several values.
    """
    arguments: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        arguments.append("--" + name.replace("_", "-"))
        if value is not True:
            several = value if isinstance(value, (list, tuple)) else [value]
            arguments.extend(map(str, several))
    return tuple(arguments)
