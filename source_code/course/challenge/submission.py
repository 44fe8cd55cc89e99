"""A submission: the names that its file defines, on top of the baseline's."""

import difflib
import hashlib
import linecache
import types
from pathlib import Path

from course.challenge import rules
from course.challenge.rules import Refused
from ddl.errors import InputError

BASELINE = Path(__file__).parent / "submissions" / "baseline.py"


def find(path: str | Path) -> Path:
    """Return a submission's path; a bare name may be one of the course's own submissions."""
    file = Path(path).expanduser()
    own = {each.name: each for each in sorted(BASELINE.parent.glob("*.py"))}
    file = file if file.exists() else own.get(str(path), file)
    if not file.is_file():
        raise InputError(f"{path} is not a file: name a Python file, or one of {', '.join(own)}")
    return file.resolve()


def read(path: Path) -> bytes:
    """Return a submission's bytes; Refused if it is too large or not Python."""
    content = path.read_bytes()
    if len(content) > rules.FILE_BYTES:
        raise Refused(f"{path.name} has {len(content):,} bytes: at most {rules.FILE_BYTES:,} are allowed")
    try:
        compile(content, path.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise Refused(f"{path.name} is not valid Python: {error}") from None
    return content


def sha256(content: bytes) -> str:
    """Return the digest that identifies a file's bytes."""
    return hashlib.sha256(content).hexdigest()


class Submission:
    """The baseline's names, replaced by those that a file defines; Refused if the harness can't use one.

    `path` is the file's path or name, for tracebacks, and `content` its bytes. Errors of its own code pass through.
    """

    def __init__(self, path: str, content: bytes):
        self.name = Path(path).name
        self._module = types.ModuleType("submission")
        self._run(str(BASELINE), BASELINE.read_bytes())
        known = {name for name in vars(self._module) if name.isupper()}
        self._run(path, content)
        for name in sorted(filter(str.isupper, set(vars(self._module)) - known)):
            if close := difflib.get_close_matches(name, known, 1, 0.85):
                raise Refused(f"{self.name}: unknown setting {name}: did you mean {close[0]}?")
        batch = rules.GLOBAL_BATCH
        self._need("SAMPLES", range(batch, 2**31, batch), f"a multiple of {batch:,}")
        self._need("GHOST_BATCH", [2**power for power in range(1, 11)], f"a power of two from 2 to {batch:,}")
        self._need("COMPRESSION", ("none", "fp16"), "none or fp16")
        self._need("PRECISION", ("float32", "bfloat16"), "float32 or bfloat16")

    def __getattr__(self, name):
        return getattr(self._module, name, None)

    def _run(self, path, content):
        # TensorFlow translates Python conditions, and needs the source even if the file isn't here.
        lines = content.decode().splitlines(keepends=True)
        linecache.cache[path] = len(content), None, lines, path
        exec(compile(content, path, "exec", dont_inherit=True), vars(self._module))

    def _need(self, name, choices, words):
        if type(value := getattr(self, name)) not in (int, str) or value not in choices:
            raise Refused(f"{self.name}: {name} must be {words}, got {value!r}")
