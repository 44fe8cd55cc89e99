"""A submission's file and the process that runs it, as the parent sees them: nothing but an answer comes back."""

import ast
import json
import os
import sys
import textwrap

import psutil
import pytest

from course.challenge import rules
from course.challenge.build import BASELINE, Built, _keep, build
from course.challenge.journal import sha256
from course.challenge.rules import Refused
from course.grader import channel
from ddl.errors import InputError

SAY_ENVIRONMENT = """
import json, os, sys

assert json.loads(sys.stdin.readline())["seeds"] == [1]
home = os.environ["HOME"] == os.environ["TMPDIR"] == os.getcwd() and not os.listdir()
print(json.dumps({"refused": f"{sorted(os.environ)} {home}", "id": 1}), flush=True)
"""


@pytest.fixture
def path(submission):
    return submission("PEAK = 1.0")


def test_a_builder_gets_an_empty_folder_and_nothing_of_this_processs_environment(path, tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_DATA_DIR", str(tmp_path))
    monkeypatch.setattr("course.challenge.build.COMMAND", [sys.executable, "-I", "-c", SAY_ENVIRONMENT])
    with pytest.raises(Refused) as caught:
        build(path, [1], tmp_path / "built")
    names, home = str(caught.value).rsplit(" ", 1)
    assert not set(ast.literal_eval(names)) - {"HOME", "LANG", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR"}
    assert home == "True"


def answering(code):
    """Start, in the builder's place, a process that reads the request and then runs this code."""
    code = f"import json, os, sys, time\nrequest = json.loads(sys.stdin.readline())\n{textwrap.dedent(code)}"
    started = []

    def start(command):
        assert command == [sys.executable, "-I", "-m", "course.challenge.builder"]
        started.append(channel.Channel([sys.executable, "-I", "-c", code]))
        return started[-1]

    start.started = started
    return start


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os._exit(0)", "gave no answer: it ended with status 0"),
        ('print(\'{"public_accuracy": 1.0, "id": 1}\', flush=True)', "what was built is not what the harness reads"),
        ("print('no JSON', flush=True)", "gave no answer: its answer is not a JSON object"),
        ("sys.exit('out of memory')", "it ended with status 1 \\(out of memory\\)"),
        ("time.sleep(60)", "it was not built within 1 s; its functions should describe a training, not train"),
    ],
)
def test_a_builder_that_answers_nothing_or_anything_else_is_refused(path, tmp_path, code, words):
    start = answering(code)
    with pytest.raises(Refused, match=words) as caught:
        build(path, [1], tmp_path / "built", start, timeout_s=1 if "sleep" in code else 100)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("mine.py")
    assert not psutil.pid_exists(start.started[0].pid)
    assert not (tmp_path / "built").exists()


ANSWER = {
    "files": {"loss.pb": "AAAA", "start-1.npz": "AAAA"},
    "settings": {"samples": 2048, "ghost_batch": 32, "compression": "none", "precision": "float32"}
    | {"parameters": 1, "prepare": True, "finish": False, "passes": 1, "prepare_samples": 1024},
    "seeds": [1],
    "variables": [],
    "functions": {},
}


def test_an_answer_is_kept_with_the_hash_that_the_parent_took(path, tmp_path):
    answer = {**ANSWER, "file": "forged", "file_name": "forged"}
    made = build(
        path,
        [1],
        tmp_path / "a" / "built",
        answering(f"print({json.dumps(json.dumps(answer | {'id': 1}))}, flush=True)"),
    )
    assert (made.file, made.file_name) == (sha256(path.read_bytes()), "mine.py")
    assert (made.folder / "loss.pb").read_bytes() == b"\0\0\0"
    assert json.loads((made.folder / "built.json").read_text())["file"] == made.file


def test_an_answer_writes_no_other_files(tmp_path):
    for name in ("../loss.pb", "built.json", "/tmp/loss.pb", "start-1.npz/../../x", "loss.pb\n"):
        answer = {**ANSWER, "files": {name: "AAAA"}}
        with pytest.raises(Refused, match="what was built is not what the harness reads"):
            _keep(answer, tmp_path / "built", {"file_name": "mine.py"})
    assert not os.listdir(tmp_path)


def test_a_file_is_one_small_text(path, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        build(tmp_path / "missing.py", [1], tmp_path / "built")
    for content, words in (
        (b"#" * (rules.FILE_BYTES + 1), "larger than 20,000 bytes"),
        (b"\xff\xfe", "not a Python file"),
    ):
        path.write_bytes(content)
        with pytest.raises(Refused, match=f"mine.py is {words}"):
            build(path, [1], tmp_path / "built")
    path.write_text("PEAK = 1.0")
    with pytest.raises(InputError, match="is not empty"):
        build(path, [1], tmp_path)
    with pytest.raises(InputError, match="holds no built submission"):
        Built.at(tmp_path)
    assert len(BASELINE.read_bytes()) < rules.FILE_BYTES
