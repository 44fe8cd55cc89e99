"""Who may import whom: CONTRIBUTING.md has the same table."""

import ast
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import ddl

PACKAGE = Path(ddl.__file__).parent
# A room imports from those above its own line, never from its neighbours or from below.
LINES = [
    {"errors", "lazy", "words"},
    {"arguments"},
    {"records"},
    {"data", "display"},
    {"topology", "training", "launcher", "grader"},
    {"rank", "analysis"},
    {"plot", "diagnose"},
    {"challenge"},
    {"lab"},
    {"cli"},
]
LINE_OF = {room: number for number, line in enumerate(LINES) for room in line}


def room_of(module):
    return module.split(".")[1]


def imports():
    """Every import of one of the package's modules by another: (importing module, imported module)."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("ddl", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        if module == "ddl":
            continue  # the public names: it imports each on first use
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "ddl":
                yield from ((module, f"ddl.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ddl."):
                for alias in node.names:
                    inside = PACKAGE.parent.joinpath(*node.module.split("."), f"{alias.name}.py")
                    yield module, f"{node.module}.{alias.name}" if inside.exists() else node.module
            elif isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names if alias.name.startswith("ddl."))


def test_every_module_is_in_a_room():
    # By modules, not by folders: git leaves those that it has emptied where Python has put its cache.
    found = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert found - {"__init__"} == set(LINE_OF)


def test_no_room_imports_a_neighbour_or_upward():
    wrong = [
        (importing, imported)
        for importing, imported in imports()
        if room_of(importing) != room_of(imported) and LINE_OF[room_of(importing)] <= LINE_OF[room_of(imported)]
    ]
    assert not wrong


def test_no_import_runs_in_a_circle():
    graph = defaultdict(set)
    for importing, imported in imports():
        graph[importing].add(imported)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
