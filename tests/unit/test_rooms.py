"""Allowed imports between packages, as listed in CONTRIBUTING.md."""

import ast
import functools
import graphlib

import pytest

from helpers import ROOT

SOURCE = ROOT / "source_code"
# A room imports from those above its own line, never from its neighbors or from below.
TOOL = [
    {"errors", "lazy", "plugins", "text"},
    {"arguments"},
    {"records"},
    {"display"},
    {"job", "paired_stats"},
    {"follow"},
    {"start"},
    {"comparison", "diagnose", "live", "pytest_ranks", "rank", "server"},
    {"cli"},
]
COURSE = [
    {"data"},
    {"training"},
    {"grader", "machine", "shared"},
    {"challenge", "convergence", "gradients", "multi_gpu", "sharding", "topology"},
    {"plot", "lab"},
    {"cli"},
    {"plugin"},
]
LINE_OF = {
    f"{package}.{room}": number
    for package, lines in (("ddl", TOOL), ("course", COURSE))
    for number, line in enumerate(lines)
    for room in line
}
SCRIPTS = {"scripts", "submissions"}  # programs, of which nothing imports anything


def modules():
    """Every module of the two packages: (its name, its file)."""
    for package in ("ddl", "course"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            if not SCRIPTS & set(path.parts):
                yield ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"), path


@functools.cache
def nodes(path):
    """All of a module's syntax, parsed once."""
    return list(ast.walk(ast.parse(path.read_text())))


def imports(by_name=True):
    """Every import of one of the packages' modules by another: (importing, imported); also `by_name` in a string."""
    names = dict(modules())
    for module, path in names.items():
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("ddl", "course"):
                for alias in node.names:
                    inside = f"{node.module}.{alias.name}"
                    yield module, inside if inside in names else node.module
            elif isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names if alias.name in names)
            elif by_name and isinstance(node, ast.Constant) and node.value in names and module.startswith("course."):
                yield module, node.value  # for import_module, or `python -m`


def room_of(module):
    return ".".join(module.split(".")[:2])


def test_every_module_has_a_layer():
    rooms = {room_of(module) for module, _ in modules()}
    assert rooms - {"ddl", "course"} == set(LINE_OF)


def test_packages_import_one_way():
    wrong = [
        (importing, imported)
        for importing, imported in imports()
        for below, above in [(room_of(importing), room_of(imported))]
        if {below, above} <= set(LINE_OF) and below != above and below.split(".")[0] == above.split(".")[0]
        if LINE_OF[below] <= LINE_OF[above]
    ]
    assert not wrong


def test_ddl_never_imports_course():
    for path in (SOURCE / "ddl").rglob("*.py"):
        for node in nodes(path):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
            assert not [name for name in names if name.startswith("course.")], path


def test_no_module_imports_itself_through_others():
    graph = {}
    for importing, imported in imports(by_name=False):
        if importing != imported and not (importing.startswith(f"{imported}.") or imported.startswith(f"{importing}.")):
            graph.setdefault(importing, set()).add(imported)
    sorter = graphlib.TopologicalSorter(graph)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"a circle of imports: {' < '.join(error.args[1])}")
