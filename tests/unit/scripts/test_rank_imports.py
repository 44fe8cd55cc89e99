"""Imports of scripts and the package on a rank, without packages for tables and figures."""

import ast

import course
import ddl
from course import challenge
from helpers import ROOT

SCRIPTS = ROOT / "source_code"
IMPORTED = [*SCRIPTS.glob("*.py"), *SCRIPTS.glob("strategies/*.py"), *SCRIPTS.glob("*/**/scripts/*.py")]
HEAVY = {"pandas", "matplotlib"}
HOMES = {package.__name__: package._HOME for package in (ddl, course, challenge)}  # of names imported on use


def names(path):
    """Yield what a file imports as it is itself imported: modules, and names that may be modules."""
    nodes = [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            homes = HOMES.get(node.module, {})
            yield node.module
            yield from (f"{node.module}.{homes.get(alias.name, alias.name)}" for alias in node.names)
        elif not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            nodes += ast.iter_child_nodes(node)


def test_no_script_imports_pandas_or_matplotlib_on_a_rank():
    paths, seen, heavy = list(IMPORTED), set(), []
    while paths:
        path = paths.pop()
        seen.add(path)
        for name in names(path):
            heavy += [(str(path), name)] * (name.partition(".")[0] in HEAVY)
            base = SCRIPTS.joinpath(*name.split("."))
            paths += [
                file for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists() and file not in seen
            ]
    assert heavy == [] and len(seen) > 60
