"""Cheats in the process that a score trains in: what gains nothing, and that it would without its mechanism.

Limits with numbers are in tests/unit/challenge/test_scoring.py, private images in test_images.py there, and what a
person is told in test_report.py.
"""

import os
import socket
import threading

import psutil
import pytest

from course.challenge import clock, scoring
from course.challenge.images import shared, training_images
from marking import sandbox
from submissions import TINY

pytestmark = pytest.mark.slow

REACHED = """
import os, socket
reached = [path for path in {files!r} if os.path.exists(path)]
try:
    socket.create_connection(("127.0.0.1", {port}), 5)
    reached.append("network")
except OSError:
    pass
raise ValueError(f"reached {{reached}} on {{len(os.sched_getaffinity(0))}} core")
"""
FORKS = """
import os, time
if not os.fork():
    time.sleep(60)
"""
# Works for three seconds when the first private image is there; until then it answers at once.
LATE = """
import time
done = []

def finish(model, optimizer):
    done.append(True)

def think(x):
    end = time.process_time() + 3 * bool(done)
    while time.process_time() < end:
        pass
    return x

class Thinking(layers.Layer):
    def call(self, x, training=False):
        return x if training else tf.ensure_shape(tf.numpy_function(think, [x], tf.float32), x.shape)

small = model
model = lambda: small(Thinking())
"""
# Goes on in a thread, and leaves a process, after the answers.
ENDLESS = """
import threading
def work():
    while True:
        sum(range(1000))
threading.Thread(target=work, daemon=True).start()
"""


@pytest.fixture(scope="module")
def train():
    """Return a function that trains TINY with further lines, in the sandbox or not: (what is noted, clock, process)."""
    images, labels = training_images("synthetic", 2048)
    with shared(images, labels) as descriptor:

        def run(text, start=sandbox.start_trainer):
            processes, stop = [], threading.Event()

            def started(*arguments):
                channel = start(*arguments)
                processes.append(psutil.Process(channel.pid))
                return channel

            timed = clock.Clock(max(os.sched_getaffinity(0)), stop)
            known = {"data": "synthetic", "trial": {"private_samples": 500}}
            pairs = scoring.Pairs(known, b"", labels, descriptor, started, stop)
            try:
                found = pairs.train(timed, {"seed": 1, "secret": 2, "private": 3}, "mine.py", (TINY + text).encode())
            except clock.Failed as error:
                found = str(error)
            return found, timed, processes[0]

        yield run


@pytest.fixture
def listening():
    """Return the port of a server on this host."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_submission_reaches_no_files_or_network(train, tmp_path, listening):
    files = [tmp_path / "ann" / "mine.py", tmp_path / "data" / "cifar10.npy", tmp_path / "runs" / "score.json"]
    for file in files:
        file.parent.mkdir()
        file.write_text("")
    text = REACHED.format(files=[*map(str, files), str(sandbox.ROOT / "results")], port=listening)
    found, _, _ = train(text)
    assert found.endswith("reached [] on 1 core")
    found, _, _ = train(text, clock.start_trainer)  # the same without a sandbox
    assert all(str(file) in found for file in files) and "network" in found


def test_second_process_ends_the_run(train):
    found, _, process = train(FORKS)
    assert found == "it started another process" and not process.is_running()


def test_processes_after_training_are_timed_and_ended(train):
    honest, timed, _ = train("")
    late, timed_late, _ = train(LATE)
    endless, timed_endless, process = train(ENDLESS)
    assert 0 < honest["accuracy"] < 1 and honest["samples"] == late["samples"] == 2048
    assert honest["accuracy"] == late["accuracy"] == endless["accuracy"]  # the same weights, whatever the time
    assert timed_late.cpu_s > timed.cpu_s + 2.5
    assert timed_endless.cpu_s > timed.cpu_s
    assert not process.is_running()
