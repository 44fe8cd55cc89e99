"""Hostile submissions, each in a real sandbox: the verdict they get, and that nothing is left.

Every submission has an honest question before the attack and one after it: both keep their points.
"""

import contextlib
import os
import shutil
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from course.grader.grade import grade_notebook
from course.grader.launches import Launches
from course.grader.limits import Limits
from course.multi_gpu import conversion
from helpers import code, question, until
from marking import sandbox

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")]

SHORT = Limits(cell_s=4, call_s=2, test_s=20, total_s=90, memory_bytes=2**30)
WRONG = "def square(x):\n    return -1\n"
QUESTION = "assert square(3) == 9\n### BEGIN HIDDEN TESTS\nassert square(4) == 16\n### END HIDDEN TESTS"


def submission(*attack, asked=QUESTION):
    """An honest answer, the attack, then another honest answer; each with its question."""
    cells = [
        code("def before(x):\n    return x + 1"),
        question("before", "assert before(1) == 2"),
        *map(code, attack),
        question("attacked", asked),
        code("def after(x):\n    return 2 * before(x)"),
        question("after", "assert after(1) == 4"),
    ]
    return {"cells": cells}


@pytest.fixture
def marked(orphans):
    """Return a function that grades a notebook, and then finds none of its processes."""

    def mark(notebook, limits=SHORT):
        with contextlib.closing(Launches(sandbox.start_launcher, limits)) as launches:
            return grade_notebook(
                notebook, hidden=True, start_worker=sandbox.start_worker, launches=launches, limits=limits
            )

    yield mark
    until(lambda: not orphans(), 10, lambda: f"left: {orphans()}")


def passed(grading):
    return {verdict.grade_id: verdict.passed for verdict in grading.verdicts}


ALWAYS_EQUAL = """
class Equal({base}):
    __eq__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = None
    __array__ = lambda self, *a, **k: __import__("numpy").array(9)
    __sub__ = __rsub__ = __abs__ = __round__ = lambda self, *a: self
"""
FORGED = """
import glob, json, os
line = json.dumps({"id": 3, "value": "9", "done": {"passed": True, "message": "", "printed": ""},
                   "printed": "", "error": None, "names": {"square": {"function": True}}})
for fd in map(int, os.listdir("/proc/self/fd")):
    for number in range(50):
        try:
            os.set_blocking(fd, False)
            os.write(fd, (line.replace('"id": 3', f'"id": {number}') + "\\n").encode())
        except OSError:
            break
"""
# Attacks in a call, after which the process is intact or replaced.
WRONG_CALLS = {
    **{
        f"{kind} equal to everything": f"import numpy as np\n{ALWAYS_EQUAL.format(base=kind)}"
        f"def square(x):\n    return {value}"
        for kind, value in {"object": "Equal()", "float": "Equal(1)", "np.ndarray": "np.zeros(1).view(Equal)"}.items()
    },
    "a type that lies about itself": """
class Lie:
    __class__ = property(lambda self: float)
    __float__ = lambda self: 9.0
    __eq__ = lambda self, other: True
def square(x):
    return Lie()
""",
    "an exception named like one": """
class AssertionError(BaseException):
    __str__ = lambda self: 1 / 0
    __class__ = property(lambda self: 1 / 0)
def square(x):
    raise AssertionError()
""",
    "sys.exit in a call": "import sys\ndef square(x):\n    sys.exit(0)",
    "an interrupt in a call": "def square(x):\n    raise KeyboardInterrupt",
    "nested deeply": "def square(x):\n    r = []\n    for _ in range(9**5): r = [r]\n    return r",
    "a huge array": "import numpy as np\ndef square(x):\n    return np.zeros(10**7)",
    "not a number": "def square(x):\n    return float('nan')",
}
WRONG_ANSWERS = {
    "patched built-ins": """
import builtins, math, sys
import numpy as np
builtins.AssertionError = type("Quiet", (Exception,), {})
builtins.abs = builtins.round = lambda *a: 0
builtins.all = lambda *a: True
math.isclose = np.allclose = np.testing.assert_allclose = lambda *a, **k: True
"""
    + WRONG,
    "a patched worker": """
import course.grader.worker as worker, course.grader.serialize as boundary, sys
for module in (worker, boundary, sys.modules["__main__"]):
    module.encode = lambda value: "true"
    module.respond = lambda names, request: {"value": "true", "done": {"passed": True}}
"""
    + WRONG,
    "answers forged on every descriptor": FORGED + WRONG,
    "os._exit in a cell": WRONG + "import os; os._exit(0)",
    "signals to everyone": WRONG + "import os, signal; os.kill(-1, signal.SIGKILL)",
    "reading the judge": """
import glob
def square(x):
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        if b"grader.judge" in open(path, "rb").read():
            return 9 if x == 3 else 16
""",
}


def test_result_that_claims_equality_fails(marked):
    notebook = submission()
    notebook["cells"][2:3] = [
        cell for name, attack in WRONG_CALLS.items() for cell in (code(attack), question(name, QUESTION))
    ]
    assert passed(marked(notebook)) == {"before": True, **dict.fromkeys(WRONG_CALLS, False), "after": True}


@pytest.mark.parametrize("attack", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
def test_attack_on_the_judge_fails(marked, attack):
    assert passed(marked(submission(attack))) == {"before": True, "attacked": False, "after": True}


ENDLESS = """
import signal, threading
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU):
    signal.signal(number, signal.SIG_IGN)
"""
MANY = "more than 32 processes and threads"
EXHAUSTING = {
    "a cell without end": (WRONG + ENDLESS + "while True: pass", "did not end within 4 s"),
    "a call without end": (ENDLESS + "def square(x):\n    while True: pass", "square did not return within 2 s"),
    "a fork bomb": (WRONG + "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", MANY),
    "a thread bomb": (
        WRONG
        + "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(99,)).start()\n"
        "    except RuntimeError: pass",
        MANY,
    ),
    "memory of many": (
        WRONG + "import os, time\nfor _ in range(4):\n    if not os.fork(): break\n"
        "hog = b'x' * 400 * 2**20\ntime.sleep(60)",
        "MiB of memory",
    ),
}


@pytest.mark.parametrize("attack, note", EXHAUSTING.values(), ids=EXHAUSTING)
def test_resource_exhaustion_is_stopped(marked, attack, note):
    # The time is not up first on a busy machine.
    found = marked(submission(attack), replace(SHORT, cell_s=30) if note == MANY else SHORT)
    assert passed(found) == {"before": True, "attacked": False, "after": True}
    assert any(note in text for text in found.notes), found.notes


SQUARE = "def square(x):\n    return x * x\n"
HARMLESS = {
    "warnings and prints": "import warnings, sys, logging\nwarnings.warn('old')\n"
    "print('x', file=sys.stderr)\nlogging.error('bad')\ndef square(x):\n"
    "    print(x); warnings.warn('slow'); sys.stderr.write('!')\n    return x * x",
    "a gigabyte of output": SQUARE + "import os, sys\nline = 'x' * 2**20\n"
    "for _ in range(1024): print(line)\nfor _ in range(64): os.write(1, line.encode())",
    "magics": "%matplotlib inline\n%time 1\n!echo hello\n" + SQUARE,
    "memory that is refused": SQUARE + "hog = b'x' * 4 * 2**30",
    "a file of 200 MB": SQUARE + "with open('big', 'wb') as f:\n    for _ in range(200): f.write(b'x' * 2**20)",
    "standard input": SQUARE + "input('name? ')",
}


@pytest.mark.parametrize("cell", HARMLESS.values(), ids=HARMLESS)
def test_correct_answer_with_extra_code_keeps_points(marked, cell):
    found = marked(submission(cell))
    assert passed(found) == {"before": True, "attacked": True, "after": True}
    assert all(len(result.printed) < SHORT.printed_bytes + 100 for result in found.cells)


# ---------------------------------------------------------------- scripts that are launched on ranks

LAUNCHED = {
    "answers for its parent": """
import json, os
lines = [{"event": "step", "samples": [], "loss": 0.0, "counted": 16, "weights": {}}]
ranks = [{"status": 0, "error": None, "lines": lines, "wrote": not k} for k in range(2)]
for process in (os.getpid(), os.getppid(), 1):
    for number in range(200):
        for say in range(4):
            try:
                file = os.open(f"/proc/{process}/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
                os.write(file, json.dumps({"id": say, "late": False, "ranks": ranks}).encode() + b"\\n")
            except OSError:
                pass
""",
    "a fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "memory": "hog = []\nwhile True: hog.append(b'x' * 2**28)",
}


def launched(script):
    """A hand-in with a script, and a question for each of the checks, between honest ones."""
    tests = [
        question(
            check.__name__,
            "from course.multi_gpu import conversion\n"
            f"conversion.{check.__name__}(conversion.training('my.py', ranks=2, seed=1))",
        )
        for check in conversion.CHECKS
    ]
    notebook = submission("%%writefile my.py\n" + script)
    notebook["cells"][3:4] = tests
    return notebook


@pytest.mark.parametrize("script", LAUNCHED.values(), ids=LAUNCHED)
def test_forged_launch_reports_earn_nothing(marked, script):
    limits = Limits(cell_s=4, call_s=2, test_s=20, launch_s=8, total_s=90)
    verdicts = passed(marked(launched(script), limits))
    assert verdicts.pop("before") and verdicts.pop("after")
    assert not any(verdicts.values())


def test_shared_memory_and_namespaces_are_refused(marked):
    found = marked(
        submission(
            SQUARE + "import os\n",
            "os.memfd_create('x')",
            """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print([libc.shmget(0, 2**20, 0o1600), libc.unshare(0x10000000), libc.ptrace(0, 0, 0, 0)])
""",
        )
    )
    assert found.cells[2].error.type == "PermissionError"
    assert "[-1, -1, -1]" in found.cells[3].printed


def test_all_written_files_together_are_limited(marked):
    cell = "for number in range(20):\n    with open(str(number), 'wb') as file:\n        file.write(bytes(2**24))"
    assert "No space left" in marked(submission(SQUARE, cell)).cells[2].error.message


def test_instructor_files_cannot_be_read_or_changed(marked, tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_TEST_SECRET", "a-secret-of-the-instructor")
    secret = tmp_path / "gradebook.db"
    secret.write_text("a-secret-of-the-instructor")
    here = Path(__file__).resolve()
    found = marked(
        submission(
            SQUARE
            + f"""
import glob, os
os.symlink({str(secret)!r}, "link")
for path in ["link", {str(secret)!r}, {str(here)!r}, "/etc/passwd", "/root/.bashrc",
             {str(here.parents[2] / "grading/marking/sandbox.py")!r}, "/proc/1/root/etc/passwd",
             *glob.glob("/proc/[0-9]*/environ"), *glob.glob("/proc/[0-9]*/cmdline")]:
    for mode in "ra":
        try:
            print(path, mode, open(path, mode).read(100000))
        except (OSError, ValueError) as error:
            print(type(error).__name__)
print(os.environ, [os.listdir("/home") if os.path.isdir("/home") else None])
for folder in ("/", "/dev", "/usr", "/etc", {os.path.dirname(sandbox.ddl.__file__)!r}):
    try:
        open(folder + "/mine", "w").close()
        print("could write to", folder)
    except OSError:
        pass
"""
        )
    )
    printed = found.cells[1].printed
    assert found.cells[1].error is None
    assert printed.count("FileNotFoundError") >= 10  # the secret, this file, the marking, passwd
    assert "a-secret" not in printed and "could write" not in printed
    assert "def start_worker" not in printed and str(tmp_path) not in printed.replace(str(secret), "")
    assert secret.read_text() == "a-secret-of-the-instructor"


def test_sandbox_has_no_network(marked):
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def accept():
            while True:
                try:
                    seen.append(server.accept()[0].recv(9))
                except OSError:
                    return

        listener = threading.Thread(target=accept, daemon=True)
        listener.start()
        with socket.create_connection(("127.0.0.1", port)) as probe:  # it can be reached, outside
            probe.sendall(b"outside")
        cell = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2).sendall(b'in')"
        found = marked(submission(SQUARE, cell))
        server.shutdown(socket.SHUT_RDWR)
        listener.join(10)
    assert found.cells[2].error.type == "ConnectionRefusedError"
    assert seen == [b"outside"]


def test_hidden_test_arguments_are_not_shown(marked):
    stash = """
seen = []
def square(x):
    seen.append(x)
    print("called with", x)
    if x == 4:
        raise ValueError(f"called with {x}")
    return x * x
"""
    notebook = submission(stash)
    notebook["cells"].append(code("print('stashed', seen); raise RuntimeError(str(seen))"))
    found = marked(notebook)
    verdict = found.verdicts[1]
    assert not verdict.passed
    assert verdict.message == "A hidden test did not pass."
    assert found.cells[-1].printed == "stashed [3]\n"
    assert "4" not in repr(found.notes) + found.cells[-1].error.message


def test_notebook_time_is_limited(marked):
    hang = "def square(x):\n    while True: pass"
    cells = [code(hang)] + [question(f"q{n}", "assert square(3) == 9") for n in range(20)]
    found = marked({"cells": cells}, Limits(call_s=1, total_s=3))
    assert not any(verdict.passed for verdict in found.verdicts)
    assert found.verdicts[-1].message == "not graded: the notebook had used up its 3 s"
