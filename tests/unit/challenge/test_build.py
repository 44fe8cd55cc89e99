"""A submission's file and the process that runs it, as the parent sees them: nothing but an answer comes back."""

import ctypes
import json
import os
import socket
import sys
import textwrap

import psutil
import pytest

from ddl.challenge import rules
from ddl.challenge.build import BASELINE, Built, build, file_hash
from ddl.challenge.rules import Refused
from ddl.errors import InputError
from ddl.grader import channel
from helpers import until

HONEST = """
import tensorflow as tf
from tensorflow.keras import layers

SAMPLES = 2048

def model():
    pictures = layers.Input((32, 32, 3))
    x = layers.Dense(4, "relu")(layers.Flatten()(pictures))
    return tf.keras.Model(pictures, layers.Dense(10)(x))

def augment(pictures, numbers, epoch, key):
    return pictures
"""
# Tries what its process could do, and says what came of it.
TRICKS = """
import os, socket, subprocess, sys, threading, time

def tried(what, action):
    try:
        print(what, "worked:", action())
    except Exception as error:
        print(what, "failed")

tried("reading data", lambda: open(DATA).read())
tried("reading data in TensorFlow", lambda: tf.io.read_file(DATA))
tried("listing runs", lambda: os.listdir(os.path.dirname(DATA)))
tried("writing a result", lambda: open(DATA, "w"))
tried("the parent's environment", lambda: open(f"/proc/{os.getppid()}/environ", "rb").read())
tried("the network", lambda: socket.create_connection(("127.0.0.1", PORT), 5))
tried("ending the parent", lambda: os.kill(os.getppid(), 0))
print("variables:", [name for name in os.environ if name.startswith("DDL")])
print('{"public_accuracy": 1.0}')
time.monotonic = time.perf_counter = time.time = lambda: 0.0
threading.Thread(target=threading.Event().wait).start()
print("started:", subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid)
"""
DENIED = [
    "reading data failed",
    "reading data in TensorFlow failed",
    "listing runs failed",
    "writing a result failed",
    "the parent's environment failed",
    "the network failed",
    "ending the parent failed",
    "variables: []",
    '{"public_accuracy": 1.0}',
]


def confinement():
    """Return the version of the kernel's Landlock, 0 where it has none."""
    return max(0, ctypes.CDLL(None).syscall(444, None, 0, 1))


def test_tricks_of_a_file_end_with_its_process_and_change_nothing(tmp_path, monkeypatch):
    pytest.importorskip("tensorflow")
    if confinement() < 6:
        pytest.skip("the kernel has no Landlock, version 6 or later")
    data = tmp_path / "data" / "labels"
    data.parent.mkdir()
    data.write_text("secret")
    monkeypatch.setenv("DDL_DATA_DIR", str(data.parent))
    (tmp_path / "honest.py").write_text(HONEST)
    with socket.create_server(("127.0.0.1", 0)) as server:
        names = f"DATA, PORT = {str(data)!r}, {server.getsockname()[1]}\n"
        (tmp_path / "tricks.py").write_text(names + HONEST + TRICKS)
        tricks = build(tmp_path / "tricks.py", [5], tmp_path / "tricks")
    *printed, started = tricks.printed.splitlines()
    assert printed == DENIED
    process = int(started.split()[-1])
    until(lambda: not psutil.pid_exists(process))  # it is killed, and whoever inherits it collects it
    assert data.read_text() == "secret"

    honest = build(tmp_path / "honest.py", [5], tmp_path / "honest")
    assert (honest.settings["samples"], honest.seeds, honest.printed) == (2048, (5,), "")
    assert honest == Built.at(tmp_path / "honest")
    for name in ("forward_training.pb", "loss.pb", "augment.pb"):
        assert (tricks.folder / name).read_bytes() == (honest.folder / name).read_bytes()
    assert tricks.settings == honest.settings


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
        ("time.sleep(60)", "it was not built within 3 s; its functions are to describe a training, not to train"),
    ],
)
def test_a_builder_that_answers_nothing_or_anything_else_is_refused(tmp_path, code, words):
    path = tmp_path / "mine.py"
    path.write_text("PEAK = 1.0")
    start = answering(code)
    with pytest.raises(Refused, match=words) as caught:
        build(path, [1], tmp_path / "built", start, timeout_s=3 if "sleep" in code else 100)
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
    "printed": "",
}


def test_an_answer_is_kept_with_the_hash_that_the_parent_took(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("PEAK = 1.0")
    answer = {**ANSWER, "file": "forged", "file_name": "forged"}
    made = build(path, [1], tmp_path / "a" / "built", answering(f"print({json.dumps(json.dumps(answer))}, flush=True)"))
    assert (made.file, made.file_name) == (file_hash(path), "mine.py")
    assert (made.folder / "loss.pb").read_bytes() == b"\0\0\0"
    assert json.loads((made.folder / "built.json").read_text())["file"] == file_hash(path)


@pytest.mark.parametrize("name", ["../loss.pb", "built.json", "/tmp/loss.pb", "start-1.npz/../../x", "loss.pb\n"])
def test_an_answer_writes_no_other_files(tmp_path, name):
    path = tmp_path / "mine.py"
    path.write_text("PEAK = 1.0")
    answer = {**ANSWER, "files": {name: "AAAA"}}
    with pytest.raises(Refused, match="what was built is not what the harness reads"):
        build(path, [1], tmp_path / "built", answering(f"print({json.dumps(json.dumps(answer))}, flush=True)"))
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
