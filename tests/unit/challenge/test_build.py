"""A submission's file and the process that runs it, as the parent sees them: nothing but an answer comes back."""

import json
import os
import re
import socket
import sys
import textwrap

import psutil
import pytest

from ddl.challenge import rules
from ddl.challenge.build import BASELINE, Built, _keep, build
from ddl.challenge.confinement import landlock
from ddl.challenge.journal import sha256
from ddl.challenge.rules import Refused
from ddl.errors import InputError
from ddl.grader import channel
from helpers import until

HONEST = """
import tensorflow as tf
from tensorflow.keras import layers

SAMPLES = 2048
NAME = "last"

def model():
    pictures = layers.Input((32, 32, 3))
    x = layers.Dense(4, "relu")(layers.Flatten()(pictures))
    return tf.keras.Model(pictures, layers.Dense(10, name=NAME)(x))

def augment(pictures, numbers, epoch, key):
    return pictures
"""
# Tries what its process could do, and says what came of it.
TRICKS = """
import os, socket, subprocess, sys, threading, time

worked = []

def tried(what, action):
    try:
        worked.append(f"{what}: {action()}")
    except Exception:
        pass

tried("reading data", lambda: open(DATA).read())
tried("reading data in TensorFlow", lambda: tf.io.read_file(DATA))
tried("listing runs", lambda: os.listdir(os.path.dirname(DATA)))
tried("writing a result", lambda: open(DATA, "w"))
tried("the parent's environment", lambda: open(f"/proc/{os.getppid()}/environ", "rb").read())
tried("the network", lambda: socket.create_connection(("127.0.0.1", PORT), 5))
tried("ending the parent", lambda: os.kill(os.getppid(), 0))
print('{"public_accuracy": 1.0}')
threading.Thread(target=threading.Event().wait).start()
worked += [name for name in os.environ if name.startswith("DDL")]
if worked:
    raise RuntimeError(worked)
started = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid
NAME = f"started_{started}"  # which the parent reads
"""


def test_tricks_of_a_file_end_with_its_process_and_change_nothing(tmp_path, monkeypatch):
    pytest.importorskip("tensorflow")
    if landlock() < 6:
        pytest.skip("the kernel has no Landlock, version 6 or later")
    data = tmp_path / "data" / "labels"
    data.parent.mkdir()
    data.write_text("secret")
    monkeypatch.setenv("DDL_DATA_DIR", str(data.parent))
    path = tmp_path / "mine.py"
    with socket.create_server(("127.0.0.1", 0)) as server:
        path.write_text(f"DATA, PORT = {str(data)!r}, {server.getsockname()[1]}\n{HONEST}{TRICKS}")
        built = build(path, [5], tmp_path / "built")
    started = int(re.search(r"started_(\d+)", (tmp_path / "built" / "built.json").read_text())[1])
    until(lambda: not psutil.pid_exists(started))  # it is killed, and whoever inherits it collects it
    assert data.read_text() == "secret"
    assert (built.settings["samples"], built.seeds) == (2048, (5,)) and built == Built.at(tmp_path / "built")


def answering(code):
    """Start, in the builder's place, a process that reads the request and then runs this code."""
    code = f"import json, os, sys, time\nrequest = json.loads(sys.stdin.readline())\n{textwrap.dedent(code)}"
    started = []

    def start(command):
        assert command == [sys.executable, "-I", "-m", "ddl.challenge.builder"]
        started.append(channel.start([sys.executable, "-I", "-c", code]))
        return channel.Channel(started[-1])

    start.started = started
    return start


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os._exit(0)", "gave no answer: it ended with status 0"),
        ("print('{\"public_accuracy\": 1.0}', flush=True)", "what was built is not what the harness reads"),
        ("print('no JSON', flush=True)", "gave no answer: its answer is not a JSON object"),
        ("sys.exit('out of memory')", "it ended with status 1 \\(out of memory\\)"),
        ("time.sleep(60)", "it was not built within 1 s; its functions are to describe a training, not to train"),
    ],
)
def test_a_builder_that_answers_nothing_or_anything_else_is_refused(tmp_path, code, words):
    path = tmp_path / "mine.py"
    path.write_text("PEAK = 1.0")
    start = answering(code)
    with pytest.raises(Refused, match=words) as caught:
        build(path, [1], tmp_path / "built", start, timeout_s=1 if "sleep" in code else 100)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("mine.py")
    assert start.started[0].poll() is not None
    assert not (tmp_path / "built").exists()


ANSWER = {
    "files": {"loss.pb": "AAAA", "start-1.npz": "AAAA"},
    "settings": {"samples": 2048, "ghost_batch": 32, "compression": "none", "precision": "float32"}
    | {"parameters": 1, "prepare": True, "finish": False, "passes": 1, "prepare_samples": 1024},
    "seeds": [1],
    "variables": [],
    "functions": {},
}


def test_an_answer_is_kept_with_the_hash_that_the_parent_took(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("PEAK = 1.0")
    answer = {**ANSWER, "file": "forged", "file_name": "forged"}
    made = build(path, [1], tmp_path / "a" / "built", answering(f"print({json.dumps(json.dumps(answer))}, flush=True)"))
    assert (made.file, made.file_name) == (sha256(path.read_bytes()), "mine.py")
    assert (made.folder / "loss.pb").read_bytes() == b"\0\0\0"
    assert json.loads((made.folder / "built.json").read_text())["file"] == made.file


def test_an_answer_writes_no_other_files(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("PEAK = 1.0")
    for name in ("../loss.pb", "built.json", "/tmp/loss.pb", "start-1.npz/../../x", "loss.pb\n"):
        answer = {**ANSWER, "files": {name: "AAAA"}}
        with pytest.raises(Refused, match="what was built is not what the harness reads"):
            _keep(answer, tmp_path / "built", {"file_name": "mine.py"})
    assert os.listdir(tmp_path) == ["mine.py"]


def test_a_file_is_one_small_text(tmp_path):
    path = tmp_path / "mine.py"
    with pytest.raises(InputError, match="cannot be read"):
        build(path, [1], tmp_path / "built")
    path.write_text("#" * (rules.FILE_BYTES + 1))
    with pytest.raises(Refused, match="larger than 20,000 bytes: a submission is a program, without weights or data"):
        build(path, [1], tmp_path / "built")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(Refused, match="mine.py is no Python file in UTF-8"):
        build(path, [1], tmp_path / "built")
    path.write_text("PEAK = 1.0")
    with pytest.raises(InputError, match="is not empty"):
        build(path, [1], tmp_path)
    with pytest.raises(InputError, match="holds no built submission"):
        Built.at(tmp_path)
    assert len(BASELINE.read_bytes()) < rules.FILE_BYTES
