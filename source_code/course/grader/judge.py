"""The judge: a clean process that runs test cells, but none of the submission's code.

`python -m course.grader.judge` runs trusted test code only. Names that a test cell neither defines nor imports are
requested from the submission through `serialize`: a function is called there and returns plain data, so only plain
values are compared here. The same holds for launches of the submission's script: `course.grader.launches`.
"""

import ast
import builtins
import contextlib
import io
import resource
import sys
from collections.abc import Callable

from course.grader import launches
from course.grader.cells import asked_names
from course.grader.serialize import BoundaryError, decode, encode
from course.grader.worker import CapturedText
from course.grader.worker_pipe import MessagePipe

MESSAGE_CHARACTERS = 2_000
SHOWN_CHARACTERS = 200  # of a value, a call or a line
ERRORS = {name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)}
SEEN = "@seen"  # a name that no test cell can use


def judge(source: str, ask: Callable[[dict], dict], printed_bytes: int = 2**16) -> dict:
    """Run one trusted test cell in this process; return ``passed``, ``message`` and ``printed`` as a dictionary.

    `ask` returns the answer of `worker.respond` to a request, or ``{"late": seconds}`` or ``{"ended": why}``.
    """
    captured = CapturedText(printed_bytes)
    with contextlib.redirect_stdout(captured), contextlib.redirect_stderr(captured):
        message = _Test(source, ask).run()
    # It may contain text from the submission: limit its length and make it encodable.
    shown = (message or "")[:MESSAGE_CHARACTERS].encode("utf-8", "replace").decode()
    return {"passed": message is None, "message": shown, "printed": captured.text()}


class _NoAnswer(BaseException):
    """No answer from the submission; not caught by a test's `except Exception`."""


class _Raised:
    """Marks an exception as the submission's; `text` says which call raised it, and where."""

    text = ""


class _Test:
    """A running test cell."""

    def __init__(self, source, ask):
        self._source = source
        self._ask = ask
        self._last = None  # the last call of a submission's function, and its result
        self._seen = []  # parts of the current assertion, and their values

    def run(self):
        """Return None if the cell passes, otherwise the reason."""
        try:
            tree = ast.parse(self._source)
            names = asked_names(self._source)
            space = {"__name__": "__test__", SEEN: self._note}
            launches.launch = self._ask
            if names:
                space |= self._answers(names)
            code = compile(_Watched(names).visit(tree), "<test>", "exec", dont_inherit=True)
            exec(code, space)
        except _NoAnswer as error:
            return str(error)
        except AssertionError as error:
            return error.text if isinstance(error, _Raised) else self._unexpected(error)
        except Exception as error:
            return error.text if isinstance(error, _Raised) else self._stopped(error)
        return None

    def _answers(self, names):
        found = self._question({"do": "describe", "names": names}, "the answer").get("names")
        space = {}
        for name in names:
            match found.get(name) if isinstance(found, dict) else None:
                case {"function": True}:
                    space[name] = self._proxy(name)
                case {"value": str(text)}:
                    space[name] = self._decoded(text, f"`{name}` is")
                case {"refused": str(why)}:
                    raise _NoAnswer(f"`{name}` is {why}")
                case _:
                    raise _NoAnswer(
                        f"`{name}` is not defined: the cell that defines it is missing, empty, or ended with an error"
                    )
        return space

    def _proxy(self, name):
        def call(*args, **kwargs):
            text = _call_text(name, args, kwargs)
            request = {"do": "call", "name": name, "args": encode(args), "kwargs": encode(kwargs)}
            match self._question(request, text):
                case {"value": str(returned)}:
                    value = self._decoded(returned, f"{text} returned")
                case {"refused": str(why)}:
                    raise _NoAnswer(f"{text} returned {why}")
                case {"raised": dict(error)}:
                    raise _raised(text, error)
                case _:
                    raise _NoAnswer(f"{text} gave no answer that can be read")
            self._last = (text, value)
            return value

        call.__name__ = call.__qualname__ = name
        return call

    def _question(self, request, text):
        match self._ask(request):
            case {"late": seconds}:
                raise _NoAnswer(f"{text} was stopped after {seconds:g} s: does it ever return?")
            case {"ended": why}:
                raise _NoAnswer(f"{text} ended the process that it ran in: {why}")
            case reply:
                return reply

    def _decoded(self, text, what):
        try:
            return decode(text)
        except BoundaryError as error:
            raise _NoAnswer(f"{what} {error}") from None

    def _note(self, text, value):
        if text is None:  # a new assertion
            self._seen.clear()
        else:
            self._seen.append((text, value))
        return value

    def _unexpected(self, error):
        """Return the expected and the actual value in words."""
        source = self._line(error, ast.Assert)
        message = error.args[0] if error.args and isinstance(error.args[0], str) else ""
        last = self._last_call()
        if not source:  # raised by a helper, such as numpy.testing
            return ": ".join(filter(None, (last, message))) or "the test did not pass"
        values = {
            text: f"`{text}` is {_shown(value)}"
            for text, value in self._seen
            if not callable(value) and _shown(value) not in message
        }
        found = " and ".join(values.values())
        if message:
            return f"{message} ({found})" if found else message
        expected = f"expected `{source}`" + (f", but {found}" if found else "")
        return expected if not last or self._last[0] in values else f"{expected} ({last})"

    def _stopped(self, error):
        source = self._line(error, ast.stmt)
        reason = f"the test stopped at `{source}` with {type(error).__name__}: {error}"
        last = self._last_call()
        return f"{reason} ({last})" if last else reason

    def _last_call(self):
        if self._last is None:
            return ""
        text, value = self._last
        hint = ": is there a `return`?" if value is None else ""
        return f"{text} returned {_shown(value)}{hint}"

    def _line(self, error, kind):
        """Return the text of the innermost statement of a kind that an error comes from."""
        number = None
        step = error.__traceback__
        while step:
            if step.tb_frame.f_code.co_filename == "<test>":
                number = step.tb_lineno
            step = step.tb_next
        nodes = [
            node
            for node in ast.walk(ast.parse(self._source))
            if isinstance(node, kind) and node.lineno <= (number or 0) <= node.end_lineno
        ]
        if not nodes:
            return ""
        node = min(nodes, key=lambda node: node.end_lineno - node.lineno)
        text = ast.unparse(node.test if isinstance(node, ast.Assert) else node)
        return _short(text.splitlines()[0])


class _Watched(ast.NodeTransformer):
    """Make assertions record the values they compare, to show them on failure."""

    def __init__(self, asked):
        self._asked = set(asked)

    def visit_Assert(self, node):
        clear = ast.Expr(self._call(ast.Constant(None), ast.Constant(None)))
        node.test = self._watched(node.test)
        return [ast.fix_missing_locations(ast.copy_location(new, node)) for new in (clear, node)]

    def _watched(self, node):
        match node:
            case ast.Constant() | ast.GeneratorExp() | ast.Lambda() | ast.Starred():
                return node
            case ast.Compare():
                node.left = self._watched(node.left)
                node.comparators = [self._watched(part) for part in node.comparators]
                return node
            case ast.BoolOp():
                node.values = [self._watched(part) for part in node.values]
                return node
            case ast.UnaryOp():
                node.operand = self._watched(node.operand)
                return node
            case ast.BinOp():
                node.left, node.right = self._watched(node.left), self._watched(node.right)
                return node
            case ast.Call(func=ast.Name(id=name)) if name in self._asked:
                return self._call(ast.Constant(_short(ast.unparse(node))), node)
            case ast.Call():
                node.args = [self._watched(part) for part in node.args]
                for keyword in node.keywords:
                    keyword.value = self._watched(keyword.value)
                return node
        with contextlib.suppress(ValueError):
            ast.literal_eval(node)
            return node
        return self._call(ast.Constant(_short(ast.unparse(node))), node)

    def _call(self, *arguments):
        return ast.Call(ast.Name(SEEN, ast.Load()), list(arguments), [])


def _raised(call, error):
    """Rebuild the submission's exception here, with the same built-in base classes."""
    parts = ("type", "message", "line", "function")
    name, message, line, function = (str(error.get(part, ""))[:2_000] for part in parts)
    bases = error.get("bases")
    bases = [base for base in bases if isinstance(base, str)] if isinstance(bases, list) else []
    kinds = []
    for kind in (ERRORS[base] for base in dict.fromkeys(bases) if base in ERRORS):
        if not any(issubclass(nearer, kind) for nearer in kinds):
            kinds.append(kind)
    try:
        kind = type(name, (_Raised, *(kinds or [Exception])), {})
        raised = kind.__new__(kind, message)  # some need more arguments, but only in __init__
    except (TypeError, ValueError):  # incompatible types, or an invalid name
        raised = type("Exception", (_Raised, Exception), {})(message)
    if name == "NotImplementedError" and not message:  # the stub of an answer
        raised.text = f"`{function or call.partition('(')[0]}` is still to be written"
        return raised
    raised.text = f"{call} raised {name}" + (f": {message}" if message else "")
    raised.text += f" ({line})" if line else ""
    return raised


def _call_text(name, args, kwargs):
    parts = [_shown(value) for value in args]
    parts += [f"{key}={_shown(value)}" for key, value in kwargs.items()]
    return _short(f"{name}({', '.join(parts)})")


def _shown(value):
    return _short(" ".join(repr(value).split()))


def _short(text):
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def main():
    pipe = MessagePipe()
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), CapturedText(), CapturedText()

    def answer(request):
        most = request["memory_bytes"]
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
        return judge(request["test"], pipe.ask, request["printed_bytes"])

    pipe.serve(answer)


if __name__ == "__main__":
    main()
