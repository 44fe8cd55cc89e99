"""Small changes to code, one at a time, each of which a mistake may look like.

A test that passes with such a change does not look at what was changed, unless the change makes no
difference at all.
"""

import ast
import copy
import difflib

__all__ = ["mutants"]

OPERATORS = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div, ast.Add],
    ast.Div: [ast.Mult, ast.FloorDiv],
    ast.FloorDiv: [ast.Div, ast.Mod],
    ast.Pow: [ast.Mult],
    ast.Mod: [ast.FloorDiv, ast.Add],
    ast.MatMult: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.BitXor: [ast.BitOr],
}
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
COMPARISONS = {order: [other for other in ORDERS if other is not order] for order in ORDERS} | {
    ast.Eq: [ast.NotEq, ast.LtE, ast.GtE],
    ast.NotEq: [ast.Eq, ast.Lt, ast.Gt],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
}
# Either becomes the other.
PAIRS = [
    ("min", "max"), ("any", "all"), ("argmax", "argmin"), ("ceil", "floor"), ("round", "int"), ("max", "sum"),
    ("permutations", "combinations"), ("ValueError", "KeyError"), ("var", "std"),
]  # fmt: skip
NAMES = {
    "sum": ["len"],
    "mean": ["sum", "median", "max"],
    "sqrt": ["abs"],
    "sorted": ["list"],
    "append": ["extend"],
    "prod": ["sum"],
    "split": ["rsplit"],
}
for one, other in PAIRS:
    NAMES.setdefault(one, []).append(other)
    NAMES.setdefault(other, []).append(one)
NEVER_DROPPED = (ast.FunctionDef, ast.Import, ast.ImportFrom, ast.Pass)


def mutants(source):
    """Yield how each mutant differs from the source, as lines with - and +, and its own source."""
    tree = ast.parse(source)
    before = ast.unparse(tree)
    words = {word for node in ast.walk(tree) for word in _only_read(node)}
    seen = {before}
    for function in tree.body:
        names = sorted(_local_names(function))
        for parent in list(ast.walk(function)):
            for put, node in _places(parent):
                for new in [] if node in words else _changed(node, parent, names):
                    put(new)
                    after = ast.unparse(ast.fix_missing_locations(tree))
                    put(node)
                    if after not in seen:
                        seen.add(after)
                        yield _difference(before, after), after


def _only_read(node):
    """Yield the nodes of a docstring or of an error's message."""
    match node:
        case ast.Expr(value=ast.Constant()):
            yield from ast.walk(node)
        case ast.Raise(exc=ast.Call() as call):
            yield call
            for argument in call.args:
                yield from ast.walk(argument)


def _places(parent):
    """Yield every node just below `parent`, and a function that puts another in its place."""
    for field, value in ast.iter_fields(parent):
        if isinstance(value, ast.AST):
            yield lambda new, field=field: setattr(parent, field, new), value
        elif isinstance(value, list):
            for index, node in enumerate(value):
                if isinstance(node, ast.AST):
                    yield lambda new, at=index, value=value: value.__setitem__(at, new), node


def _changed(node, parent, names):
    """Yield what could stand in a node's place."""
    if isinstance(node, ast.stmt) and not isinstance(node, NEVER_DROPPED):
        yield ast.Pass()
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            for other in OPERATORS.get(type(op), ()):
                yield ast.BinOp(left, other(), right)
            yield from (left, right)
            if not isinstance(op, (ast.Add, ast.Mult)):
                yield ast.BinOp(right, op, left)
        case ast.AugAssign(target=target, op=op, value=value):
            for other in OPERATORS.get(type(op), ()):
                yield ast.AugAssign(target, other(), value)
            yield ast.Assign([target], value)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for other in COMPARISONS.get(type(op), ()):
                yield ast.Compare(left, [other()], [right])
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield from (body, orelse, ast.IfExp(test, orelse, body))
        case ast.If() | ast.While():
            for test in (ast.UnaryOp(ast.Not(), node.test), ast.Constant(True), ast.Constant(False)):
                yield _with(node, test=test)
        case ast.Constant():
            yield from map(ast.Constant, _other_values(node.value))
        case ast.Name(id=name, ctx=ast.Load()):
            for other in NAMES.get(name, ()):
                yield ast.Name(other, ast.Load())
            if name in names:
                yield from (ast.Name(other, ast.Load()) for other in names if other != name)
        case ast.Attribute(value=value, attr=name, ctx=ctx):
            yield from (ast.Attribute(value, other, ctx) for other in NAMES.get(name, ()))
        case ast.Call():
            yield from _changed_call(node)
        case ast.Subscript(value=value, slice=index, ctx=ast.Load()):
            yield value
            if not isinstance(index, (ast.Slice, ast.Constant, ast.Tuple)):
                yield from (
                    ast.Subscript(value, _plus(index, 1), ast.Load()),
                    ast.Subscript(value, _plus(index, -1), ast.Load()),
                )
        case ast.Slice(lower=lower, upper=upper, step=step):
            yield from (ast.Slice(None, upper, step), ast.Slice(lower, None, step), ast.Slice(lower, upper, None))
            for number in (1, -1):
                if lower:
                    yield ast.Slice(_plus(lower, number), upper, step)
                if upper:
                    yield ast.Slice(lower, _plus(upper, number), step)
        case ast.Tuple(elts=items) | ast.List(elts=items) if len(items) > 1:
            for index in range(len(items) - 1):
                yield _with(node, elts=[*items[:index], items[index + 1], items[index], *items[index + 2 :]])
            yield _with(node, elts=items[:-1])
        case ast.comprehension(ifs=ifs):
            for index in range(len(ifs)):
                yield _with(node, ifs=ifs[:index] + ifs[index + 1 :])
                yield _with(node, ifs=[*ifs[:index], ast.UnaryOp(ast.Not(), ifs[index]), *ifs[index + 1 :]])
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _changed_call(call):
    for index in range(len(call.args)):
        yield _with(call, args=call.args[:index] + call.args[index + 1 :])
        if index:
            swapped = [*call.args[: index - 1], call.args[index], call.args[index - 1], *call.args[index + 1 :]]
            yield _with(call, args=swapped)
    for index in range(len(call.keywords)):
        yield _with(call, keywords=call.keywords[:index] + call.keywords[index + 1 :])
    if len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
        yield call.args[0]
    match call:
        case ast.Call(func=ast.Name("range")):
            for index, argument in enumerate(call.args):
                for number in (1, -1):
                    moved = [*call.args[:index], _plus(argument, number), *call.args[index + 1 :]]
                    yield _with(call, args=moved)
            if len(call.args) == 1:
                yield _with(call, args=[ast.Constant(1), *call.args])
        case ast.Call(func=ast.Name("len")):
            yield from (_plus(call, 1), _plus(call, -1))


def _other_values(value):
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1]
        case float():
            return [value + 1, value - 1, 1.1 * value]
        case str():
            return [f"{value}x"]
    return []


def _plus(node, number):
    return ast.BinOp(node, ast.Add() if number > 0 else ast.Sub(), ast.Constant(abs(number)))


def _with(node, **fields):
    new = copy.copy(node)
    for field, value in fields.items():
        setattr(new, field, value)
    return new


def _local_names(function):
    """Names that a function's arguments and assignments bind."""
    found = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    return found | {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _difference(before, after):
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return tuple(f"{line[0]} {line[1:].strip()}" for line in lines if line[0] in "-+")
