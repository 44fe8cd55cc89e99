"""Roles of a notebook's cells, and the names that their code uses and binds, without running it."""

import ast
import builtins
import copy
import hashlib
import re
import symtable
from collections import Counter, defaultdict

STUB = "raise NotImplementedError()"  # in released code, where an answer belongs

MOST_CHARACTERS = 200_000  # of a cell to parse
WORD = re.compile(r"[^\W\d]\w*")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
HINT = re.compile(r"^hint\([^\n]*\)[ \t]*$|^from course import hint[ \t]*$", re.MULTILINE)  # no answer: not run


def source_of(cell):
    """Return a cell's text, which may be stored as a list of lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def role_of(cell):
    """A cell's nbgrader metadata."""
    return cell["metadata"].get("nbgrader") or {}


def labels(names):
    """Return questions' labels: {grade id: "question 8"}, with more words if a number is ambiguous."""
    parts = {name: re.fullmatch(r"q0*(\d+)_(.*?)(?:_test)?", name) for name in names}
    several = Counter(part[1] for part in parts.values() if part)
    return {
        name: f"question {part[1]}" + (f" ({part[2].replace('_', ' ')})" if several[part[1]] > 1 else "")
        if part
        else name
        for name, part in parts.items()
    }


def test_cells(notebook):
    """Return a notebook's test cells as {index: (grade id, points)}; the first one counts if an id is repeated."""
    found = {}
    for index, cell in enumerate(notebook["cells"]):
        role = role_of(cell)
        if cell["cell_type"] == "code" and role.get("grade") and not role.get("solution"):
            found.setdefault(role["grade_id"], (index, role["points"]))
    return {index: (name, points) for name, (index, points) in found.items()}


def tested(notebook):
    """Yield each pure test cell, with the answer above it or None."""
    answer = None
    for cell in notebook["cells"]:
        role = role_of(cell)
        if role.get("solution"):
            answer = cell
        elif role.get("grade"):
            yield answer, cell


def answers_of(notebook):
    """Return the text of each answer, {grade id: text}; JupyterLab gives all parts of a split cell the same id."""
    parts = defaultdict(list)
    for cell in notebook["cells"]:
        if role_of(cell).get("solution"):
            parts[role_of(cell).get("grade_id")].append(source_of(cell))
    return {name: "\n".join(sources) for name, sources in parts.items()}


def code_cells(notebook):
    """Return the code to run besides the tests, as {index: source}.

    In a cell tagged ``demo``, only the imports, functions, classes and constants that other cells use are run.
    """
    sources, demos, wanted = {}, {}, set()
    for index, cell in enumerate(notebook["cells"]):
        source, role = HINT.sub("", source_of(cell)), role_of(cell)
        if cell["cell_type"] != "code" or not source.strip():
            continue
        if "demo" in cell["metadata"].get("tags", ()):
            demos[index] = source
            continue
        wanted.update(WORD.findall(source))
        if role.get("solution") or not role.get("grade"):
            sources[index] = source
    return dict(sorted((sources | _defined(demos, wanted)).items()))


def as_answered(notebook):
    """Return an attendee's notebook as marking will see it, based on the notebook only, and notes.

    Answers that were converted to text become code again. The notes list test cells that were changed, deleted or
    copied, which marking restores.
    """
    notebook, odd, seen = copy.deepcopy(notebook), defaultdict(list), set()
    cells = []
    for cell in notebook["cells"]:
        role = role_of(cell)
        name, kind = role.get("grade_id"), role.get("cell_type")
        if name and kind == "code" != cell["cell_type"]:
            what = "code" if role.get("solution") else "a test"
            odd[f"made text; marking takes it as {what}"].append(name)
            cell["cell_type"] = kind
        if name and not role.get("solution"):
            if role.get("checksum") and role["checksum"] != _checksum(cell):
                odd["changed; marking puts it back"].append(name)
            elif name in seen:
                odd["copied; the first one counts"].append(name)
        cells.append(cell)
        seen.add(name)
    odd["deleted; marking puts it back"] = [
        test
        for role in map(role_of, cells)
        if role.get("solution")
        and not role.get("grade")
        and role.get("cell_type") == "code"
        and (test := f"{role['grade_id']}_test") not in seen
    ]
    notebook["cells"] = cells
    return notebook, tuple(f"{', '.join(dict.fromkeys(names))} was {what}" for what, names in odd.items() if names)


def asked_names(source):
    """Return the names that `source` uses but does not define or import, without built-ins."""
    used, bound = names_in(source)
    return sorted(name for name in used - bound if not hasattr(builtins, name))


def names_in(source):
    """Return the global names that `source` uses, and those that it binds; raise one of `NOT_PYTHON` if it is not."""
    used, bound = set(), set()

    def collect(table, top):
        for symbol in table.get_symbols():
            binds = symbol.is_assigned() or symbol.is_imported()
            if top or symbol.is_global():
                (bound if binds else used).add(symbol.get_name())
        for inner in table.get_children():
            collect(inner, False)

    tree = _Generators().visit(ast.parse(source))
    collect(symtable.symtable(ast.unparse(tree), "test", "exec"), True)
    return used, bound


class _Generators(ast.NodeTransformer):
    """Rewrites comprehensions as generators, because from Python 3.12 their names appear in the cell's scope."""

    def visit_ListComp(self, node):
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node):
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def _checksum(cell):
    """Return nbgrader's checksum of a locked cell, without its slow import."""
    role = role_of(cell)
    graded = bool(role.get("grade"))
    parts = [source_of(cell), cell["cell_type"], str(graded), "False", "True", role["grade_id"]]
    parts += [str(float(role.get("points", 0)))] if graded else []
    return hashlib.md5("".join(parts).encode()).hexdigest()


def _defined(demos, wanted):
    """Return each demo's definitions of `wanted` names and of the names that they use."""
    known = {index: list(_definitions(source)) for index, source in demos.items()}
    every, before = [each for definitions in known.values() for each in definitions], None
    while before != wanted:
        before, wanted = wanted, wanted.union(*(used for _, used, bound in every if bound & wanted))
    taken = {index: [text for text, _, bound in each if bound & wanted] for index, each in known.items()}
    return {index: "\n".join(texts) for index, texts in taken.items() if texts}


def _definitions(source):
    """Yield a cell's definitions whose names are bound only once.

    Each is (text, names it uses, names it binds).
    """
    tree = _parsed(source)
    statements = [part for statement in tree.body for part in _parts(statement)] if tree else []
    texts = [ast.unparse(statement) for statement in statements]
    names = [names_in(text) for text in texts]
    times = Counter(name for _, bound in names for name in bound)
    for statement, text, (used, bound) in zip(statements, texts, names, strict=True):
        if bound and _computes_nothing(statement) and all(times[name] == 1 for name in bound):
            yield text, used, bound


def _parts(statement):
    """Split an import of several names."""
    if isinstance(statement, ast.Import):
        return [ast.Import([alias]) for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [ast.ImportFrom(statement.module, [alias], statement.level) for alias in statement.names]
    return [statement]


def _computes_nothing(statement):
    if isinstance(statement, (ast.Import, ast.ImportFrom, *DEFINITIONS)):
        return True
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return False
    if isinstance(statement.value, ast.Lambda):
        return True
    try:
        ast.literal_eval(statement.value)
    except (*NOT_PYTHON, TypeError):
        return False
    return True


def _parsed(source):
    """Return a cell's syntax tree, magics and shell commands included, or None."""
    if len(source) > MOST_CHARACTERS:
        return None
    try:
        return ast.parse(source)
    except NOT_PYTHON:
        pass
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        return ast.parse(TransformerManager().transform_cell(source))
    except (*NOT_PYTHON, RuntimeError):
        return None
