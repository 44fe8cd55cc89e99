"""The tool stands by itself."""

import ast

from helpers import ROOT

SOURCE = ROOT / "source_code"


def test_the_tool_imports_nothing_of_the_course():
    for path in (SOURCE / "ddl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.partition(".")[0] == "course"], path
