"""What the cells of a notebook are for, and which names their code uses and defines.

All of it is read from their text: nothing is run here.
"""

import ast
import builtins
import copy
import hashlib
import itertools
import re
import symtable

__all__ = ["as_answered", "asked_names", "code_cells", "names_in", "source_of", "test_cells", "unmarked_names"]

MOST_CHARACTERS = 200_000  # of a cell that is read as Python
MOST_LINES = 300  # of a test cell with something merged into it
WORD = re.compile(r"[^\W\d]\w*")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
# After these, no text says which names there are.
DYNAMIC = re.compile(r"\b(exec|globals|locals|setattr|user_ns)\b|\bimport\s*\(?\s*\*|^%(run|pylab)", re.MULTILINE)
MAGIC = re.compile(r"^%%[\s\S]*|^[ \t]*[%!].*", re.MULTILINE)
GUARDED = (ast.Try, ast.TryStar, ast.With, ast.If, ast.While)  # that may go on without a name
OWN_NAME = re.compile(r"_+|__\w+__|_i*\d*|_[oid]h")  # a kernel's, for its inputs and outputs
KERNELS = {"In", "Out", "get_ipython", "display", "exit", "quit"}


def source_of(cell):
    """Return a cell's text; a file may have it as a list of lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def test_cells(notebook):
    """Return a notebook's test cells: from their place to their grade id and points.

    Of two with the same id the first counts.
    """
    found = {}
    for index, cell in enumerate(notebook["cells"]):
        about = _about(cell)
        if cell["cell_type"] == "code" and about.get("grade") and not about.get("solution"):
            found.setdefault(about["grade_id"], (index, about["points"]))
    return {index: (name, points) for name, (index, points) in found.items()}


def code_cells(notebook):
    """Return what is run of a notebook beside its tests: from a cell's place to its code.

    Of a cell tagged ``demo``, which shows something, only what the other cells use is run: its imports, and the
    functions, classes and constants that it defines.
    """
    sources, shows, wanted = {}, {}, set()
    for index, cell in enumerate(notebook["cells"]):
        source, about = source_of(cell), _about(cell)
        if cell["cell_type"] != "code" or not source.strip():
            continue
        if "demo" in cell["metadata"].get("tags", ()):
            shows[index] = source
            continue
        wanted.update(WORD.findall(source))
        if about.get("solution") or not about.get("grade"):
            sources[index] = source
    return dict(sorted((sources | _defined(shows, wanted)).items()))


def as_answered(notebook):
    """Return an attendee's notebook as marking takes it, as far as it tells itself, and notes.

    Returns
    -------
    tuple of dict and tuple of str
        An answer that was made text is code again. The notes say what marking puts back as it was handed out: test
        cells that were changed, deleted or copied.
    """
    notebook, odd, seen = copy.deepcopy(notebook), {}, set()
    cells = []
    for cell in notebook["cells"]:
        about = _about(cell)
        name, kind = about.get("grade_id"), about.get("cell_type")
        if name and kind == "code" != cell["cell_type"]:
            what = "code" if about.get("solution") else "a test"
            odd.setdefault(f"made text, and is {what} when marking", []).append(name)
            cell["cell_type"] = kind
        if name and not about.get("solution"):
            if about.get("checksum") and about["checksum"] != _checksum(cell):
                odd.setdefault("changed, and is put back when marking", []).append(name)
                cells.extend(_parted(cell))
            elif name in seen:
                odd.setdefault("copied, and the first one counts", []).append(name)
        cells.append(cell)
        seen.add(name)
    odd["deleted, and is put back when marking"] = [
        f"{about['grade_id']}_test"
        for about in map(_about, cells)
        if about.get("solution")
        and not about.get("grade")
        and about.get("cell_type") == "code"
        and f"{about['grade_id']}_test" not in seen
    ]
    notebook["cells"] = _in_order(cells)
    return notebook, tuple(f"{', '.join(dict.fromkeys(names))} was {what}" for what, names in odd.items() if names)


def _parted(cell):
    """Give a test cell its own lines back; return the cell that what was merged with it makes."""
    lines = source_of(cell).splitlines()
    if len(lines) > MOST_LINES:
        return []
    for first, last in itertools.combinations(range(len(lines) + 1), 2):
        own = cell | {"source": "\n".join(lines[first:last])}
        if _checksum(own) == _about(cell)["checksum"]:
            cell["source"] = own["source"]
            rest = "\n".join([*lines[:first], *lines[last:]])
            return [{"cell_type": "code", "metadata": {}, "source": rest}]
    return []


def _in_order(cells):
    """Return cells as marking puts them: questions by their numbers, no test before its answer."""
    cells = list(cells)
    answers = [place for place, cell in enumerate(cells) if _about(cell).get("solution") and _number(cell) is not None]
    by_number = sorted((cells[place] for place in answers), key=_number)
    for place, cell in zip(answers, by_number, strict=True):
        cells[place] = cell
    for test in [cell for cell in cells if _about(cell).get("grade")]:
        names = [_about(cell).get("grade_id") for cell in cells]
        place = next(place for place, cell in enumerate(cells) if cell is test)
        answer = names[place].removesuffix("_test")
        if answer in names[: place + 1] or answer not in names:
            continue
        behind = names.index(answer)
        while behind < len(cells) and names[behind] in (None, answer):
            behind += 1
        cells.insert(behind, cells[place])
        del cells[place]
    return cells


def _number(cell):
    """The number of a cell's question; None without one."""
    found = re.match(r"q(\d+)", _about(cell).get("grade_id") or "")
    return int(found[1]) if found else None


def unmarked_names(notebook):
    """Return, for each test cell's place, the names that nothing stands for when it is judged.

    Of those that answers and tests use. In a kernel they can stand for something all the same: for what is computed by
    a cell that only shows something, by one that was deleted since, or by one below the test. The place None has those
    that stand for nothing in the end.
    """
    tests, codes = test_cells(notebook), code_cells(notebook)
    used, bound, missing = set(), set(KERNELS), {}
    asked = {index: asked_names(source_of(notebook["cells"][index])) for index in tests}
    trees = {index: None if DYNAMIC.search(source) else _parsed(source) for index, source in codes.items()}
    if None in trees.values():
        return {place: set() for place in (*tests, None)}
    for tree in trees.values():
        used |= names_in(ast.unparse(tree))[0]
    used = {
        name for name in used.union(*asked.values()) if not hasattr(builtins, name) and not OWN_NAME.fullmatch(name)
    }
    for index in sorted(codes | tests):
        if index in tests:
            missing[index] = used - bound
        else:
            bound |= _binds(trees[index], used - bound)
            for magic in MAGIC.findall(codes[index]):  # it may bind whatever it names
                bound.update(WORD.findall(magic))
    return missing | {None: used - bound}


def _binds(tree, missing):
    """Return what a cell binds, up to a statement that needs, at once, a name that is missing."""
    bound = set()
    for statement in tree.body:
        names = names_in(ast.unparse(statement))[1]
        if not isinstance(statement, GUARDED) and (_needed(statement) - names) & missing - bound:
            break
        bound |= names
    return bound


def _needed(node):
    """The names that a statement uses when it is run, not when a function is called later."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, (*DEFINITIONS[:2], ast.Lambda)):
        parts = [*node.args.defaults, *filter(None, node.args.kw_defaults), *getattr(node, "decorator_list", ())]
    else:
        parts = ast.iter_child_nodes(node)
    stored = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
    return set().union(*map(_needed, parts)) - stored


def asked_names(source):
    """Return the names that `source` uses, and neither defines, imports nor has as built-ins."""
    used, bound = names_in(source)
    return sorted(name for name in used - bound if not hasattr(builtins, name))


def names_in(source):
    """Return the names that `source` uses as global ones, and those that it binds.

    Raises
    ------
    SyntaxError, ValueError, RecursionError, MemoryError
        When it is no Python.
    """
    used, bound = set(), set()

    def collect(table, top):
        for symbol in table.get_symbols():
            own = symbol.is_assigned() or symbol.is_imported()
            if top or symbol.is_global():
                (bound if own else used).add(symbol.get_name())
        for inner in table.get_children():
            collect(inner, False)

    collect(symtable.symtable(source, "test", "exec"), True)
    return used, bound


def _about(cell):
    """What nbgrader has written down about a cell."""
    return cell["metadata"].get("nbgrader") or {}


def _checksum(cell):
    """What nbgrader wrote down of a locked cell; to import nbgrader for it takes seconds."""
    about = _about(cell)
    graded = bool(about.get("grade"))
    parts = [source_of(cell), cell["cell_type"], str(graded), "False", "True", about["grade_id"]]
    parts += [str(float(about.get("points", 0)))] if graded else []
    return hashlib.md5("".join(parts).encode()).hexdigest()


def _defined(shows, wanted):
    """Return of each source the definitions that bring `wanted` names, and those that they use."""
    candidates = {index: list(_definitions(source)) for index, source in shows.items()}
    taken = {index: set() for index in shows}
    before = None
    while before != wanted:
        before = set(wanted)
        for index, definitions in candidates.items():
            for place, (statement, names) in enumerate(definitions):
                if names & wanted:
                    taken[index].add(place)
                    wanted = wanted | {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return {
        index: "\n".join(ast.unparse(candidates[index][place][0]) for place in sorted(places))
        for index, places in taken.items()
        if places
    }


def _definitions(source):
    """Yield the statements of a cell that compute nothing, each with the names that it binds.

    Not those that bind what another statement of the cell binds, too.
    """
    tree = _parsed(source)
    if tree is None:
        return
    statements = [part for statement in tree.body for part in _parts(statement)]
    bound = [_bound(statement) for statement in statements]
    for statement, names in zip(statements, bound, strict=True):
        alone = all(sum(name in others for others in bound) == 1 for name in names)
        if names and alone and _computes_nothing(statement):
            yield statement, names


def _parts(statement):
    """An import of several names as several imports."""
    if isinstance(statement, ast.Import):
        return [ast.Import([alias]) for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [ast.ImportFrom(statement.module, [alias], statement.level) for alias in statement.names]
    return [statement]


def _bound(statement):
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names} - {"*"}
    names = {statement.name} if isinstance(statement, DEFINITIONS) else set()
    if not names:
        names = {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
    return names


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
    """Return a cell's syntax tree, magics and shell commands included; None of what has none."""
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
