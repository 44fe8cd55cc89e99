"""Which options a script has, as its text says: a misspelt one is refused before anything starts."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from ddl.launcher.job import JobError
from ddl.records.paths import source_dir
from ddl.words import meant

__all__ = ["check", "known"]

DEPTH = 3  # of functions that parse for a script, and of those that parse for them
UNTOLD = {"parse_known_args", "parse_intermixed_args", "add_subparsers"}  # with which other words may be right


def known(script: str | Path) -> set[str] | None:
    """Return the options that a script gives argparse, with their dashes; None where its text does not tell.

    Only the text is read: the script's, and that of the package's functions that it calls to parse for it.
    """
    try:
        tree = ast.parse(Path(script).read_bytes())
        texts = list(_texts(tree, tree, DEPTH))
    except (OSError, SyntaxError, ValueError):
        return None  # its ranks will say so
    called = {name for text in texts for name in map(_name, _calls(text))}
    if "parse_args" not in called or called & UNTOLD:
        return None
    options = {"--help"}
    for call in (call for text in texts for call in _adding(text)):
        names = [str(word.value) for word in call.args if isinstance(word, ast.Constant)]
        if len(names) < len(call.args):
            return None  # a name that is made as it runs
        options |= {name for name in names if name.startswith("--")}
        if "BooleanOptionalAction" in ast.unparse(call):
            options |= {name.replace("--", "--no-", 1) for name in names}
    return options


def check(script: str | Path, arguments: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise JobError if an argument is an option that the script does not have.

    Parameters
    ----------
    arguments
        Of the script, as its command line has them.
    others
        Names that may have been meant as well: what the launch itself is asked for.
    """
    options = known(script)
    if options is None:
        return
    for argument in arguments:
        option = argument.split("=")[0]
        if option == "--":
            return
        if option.startswith("--") and not any(each.startswith(option) for each in options):  # argparse completes
            asked, ours = _plain(option), sorted(map(_plain, options - {"--help"}))
            has = f"; it has {', '.join(ours)}" if ours else "; it has none"
            raise JobError(f"{Path(script).name} has no option {asked}{meant(asked, [*ours, *others]) or has}")


def _plain(option: str) -> str:
    """Return an option as `launch` takes it."""
    return option.removeprefix("--").replace("-", "_")


def _calls(text: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(text) if isinstance(node, ast.Call)]


def _name(call: ast.Call) -> str:
    """Return what is called, without what it is called of."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def _adding(text: ast.AST) -> list[ast.Call]:
    """Return the calls of ``add_argument``, also by a name such as in ``add = parser.add_argument``."""
    short = {
        ast.unparse(target)
        for node in ast.walk(text)
        if isinstance(node, ast.Assign) and getattr(node.value, "attr", "") == "add_argument"
        for target in node.targets
    }
    return [call for call in _calls(text) if _name(call) == "add_argument" or ast.unparse(call.func) in short]


def _texts(text: ast.AST, module: ast.Module, depth: int) -> Iterator[ast.AST]:
    """Yield a text, and the functions that it calls of its module and, imported there by name, of the package."""
    yield text
    if not depth:
        return
    called = {ast.unparse(call.func) for call in _calls(text)}
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name in called and text is not module:
            yield from _texts(node, module, depth - 1)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ddl"):
            for alias in node.names:
                yield from _imported(node.module, alias.name, alias.asname or alias.name, called, depth - 1)


def _imported(package: str, name: str, here: str, called: set[str], depth: int) -> Iterator[ast.AST]:
    """Yield what is called of ``from package import name as here``: a function, or those of a module."""
    of_module = f"{here}."
    wanted = (
        {name} if here in called else {call.removeprefix(of_module) for call in called if call.startswith(of_module)}
    )
    for path in (f"{package}", f"{package}.{name}"):
        file = source_dir().joinpath(*path.split(".")).with_suffix(".py")
        if file.is_file():
            module = ast.parse(file.read_bytes())
            for function in module.body:
                if isinstance(function, ast.FunctionDef) and function.name in wanted:
                    yield from _texts(function, module, depth)
