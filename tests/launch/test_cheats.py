"""Every way to cheat that we know, tried: each is refused in a sentence, or scored as what it is.

A file's Python runs in a builder, which is tried here: all files in one go. What it does there either ends it, or changes
nothing in what the ranks get. The table goes on where a row costs no process: what graphs may not do, and what counts
more than once, in ``tests/unit/challenge/test_builder.py``; knowledge that comes with a file, and answers that depend on
company, in ``test_scrutiny.py`` beside it; crashes, looks, hand-ins and forged records in ``test_attempt.py`` and
``tests/grading/test_challenge.py``; that ranks see to it all, in ``test_submission.py``.
"""

import json
import os
import re
import sys
import textwrap

import pytest

from course.challenge import rules
from course.challenge.attempt import read
from course.challenge.confinement import landlock
from course.challenge.rules import Refused
from helpers import ROOT
from submissions import TINY

WORKER = ROOT / "tests" / "workers" / "builder_worker.py"
OTHERS = (
    *("data/challenge-cifar10.npy", "data/test_batch", "cache/cifar10.npz"),
    *("ann/mine.py", "runs/result.json", "runs/board.json"),
)
UNCHANGED = "what ranks get is the honest file's, byte for byte"

# What is tried, the file's further lines, and what comes of it: UNCHANGED, or what the sentence says. {folder} has
# what is in OTHERS.
CHEATS = {
    "whatever a process can do to itself, and leave behind": (
        """
        import gc, os, sys, threading, time

        class Few(int):
            def __repr__(self):
                return "1024"
            __str__ = __format__ = __repr__

        def work():
            while True:
                time.sleep(0.01)
                open(os.path.join(os.environ["TMPDIR"], "later"), "w").close()

        SAMPLES = Few(2048)  # a number that says another
        threading.Thread(target=work, daemon=True).start()
        if not os.fork():
            while True:
                time.sleep(0.01)

        for name, value in os.environ.items():
            if name.startswith("DDL") or "seed" in name.lower() or "secret" in name.lower():
                raise ValueError(f"found {{name}}")
        for each in gc.get_objects():
            if isinstance(each, np.ndarray) and each.size > 32 * 3072:
                raise ValueError("found pictures")
            if isinstance(each, dict) and isinstance(each.get("secret"), int):
                raise ValueError("found a secret")
        frame = sys._getframe()
        while frame:
            if "secret" in frame.f_locals:
                raise ValueError("found a secret")
            frame = frame.f_back

        np.random.seed(int(time.time()))
        np.random.default_rng = lambda *seed: None
        import course.data
        course.data.Order.epoch = None
        time.time = time.monotonic = time.perf_counter = time.process_time = lambda: 0.0
        print('{{"accuracy": 0.99, "samples": 1024}}')
        print("mine.py: counts: mean 99.00% of 5 runs", file=sys.stderr)
        sys.__stdout__.write("mine.py: counts\\n")
        """,
        UNCHANGED,
    ),
    "reading CIFAR-10 from disk": (
        "PICTURES = open({folder!r} + '/data/challenge-cifar10.npy', 'rb').read()",
        "PermissionError: .*only the harness has the data",
    ),
    "reading CIFAR-10 from a cache": (
        "PICTURES = np.load({folder!r} + '/cache/cifar10.npz')['x_test']",
        "PermissionError: .*only the harness has the data",
    ),
    "the network, the parent, and files by way of TensorFlow": (
        """
        import os, socket

        def refused(action):
            try:
                action()
            except (PermissionError, FileNotFoundError, tf.errors.PermissionDeniedError):
                return
            raise ValueError("it worked")

        refused(lambda: socket.create_connection(("127.0.0.1", 9), 5))
        refused(lambda: os.kill(os.getppid(), 0))
        refused(lambda: open(f"/proc/{{os.getppid()}}/environ"))
        refused(lambda: tf.io.read_file({folder!r} + "/runs/result.json"))
        refused(lambda: os.listdir({folder!r} + "/runs"))
        raise ValueError("nothing of it worked")
        """,
        "ValueError: nothing of it worked",
    ),
    "the memory of the harness": (
        """
        import ctypes, os
        with open(f"/proc/{{os.getppid()}}/mem", "rb") as memory:
            memory.read(1)
        """,
        "PermissionError|FileNotFoundError",
    ),
    "/proc": (
        """
        import glob, os
        for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
            if str(os.getpid()) not in path:
                open(path).read()
                raise ValueError(f"read {{path}}")
        """,
        "PermissionError|" + UNCHANGED,
    ),
    "another's folder": ("exec(open({folder!r} + '/ann/mine.py').read())", "PermissionError"),
    "a crash, to be tried again": ("raise RuntimeError('unlucky')", r"mine.py, line \d+: RuntimeError: unlucky"),
    "writing the result": ("open({folder!r} + '/runs/result.json', 'w').write('{{}}')", "PermissionError"),
    "writing the board": (
        """
        import os
        os.replace({folder!r} + '/runs/board.json', {folder!r} + '/runs/old.json')
        """,
        "PermissionError|OSError",
    ),
    "exiting early with status 0, by the system": ("import os\nos._exit(0)", "ended"),
    "ranks that know who they are": (
        """
        import horovod.tensorflow as hvd

        def augment(pictures, numbers, epoch, key):
            return pictures * (hvd.rank() + 1)
        """,
        "ValueError: Horovod has not been initialized",
    ),
}


def sources(folder):
    """The files by name: what stands in {} is put in, and {{}} are braces."""
    made = {"honest": TINY}
    for name, (text, _) in CHEATS.items():
        text = textwrap.dedent(text)
        braces = "{folder" in text or "{{" in text
        made[name] = TINY + (text.format(folder=str(folder)) if braces else text) + "\n"
    return made


def start(folder):
    """What OUTPUTS runs: all builders."""
    for name in OTHERS:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("# another's\n")
    (folder / "cases.json").write_text(json.dumps(sources(folder)))
    environment = {"PYTHONPATH": str(ROOT / "source_code"), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    return [sys.executable, str(WORKER), str(folder)], {**os.environ, **environment}


OUTPUTS = {"answers": start}


@pytest.fixture(scope="module")
def answers(output_of):
    folder = output_of("answers")[0]
    for name in OTHERS:
        assert (folder / name).read_text() == "# another's\n"
    return json.loads((folder / "answers.json").read_text())


def sentence(answer):
    """What the author reads of a file that is not built."""
    return answer.get("refused") or f"ended with {answer.get('ended')}"


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_gains_nothing(answers, name):
    if landlock() < 6:
        pytest.skip("the kernel has no Landlock, version 6 or later")
    answer, honest, (_, outcome) = answers[name], answers["honest"], CHEATS[name]
    if "files" not in answer:
        assert outcome != UNCHANGED and re.search(outcome, sentence(answer)), sentence(answer)
        assert "\n" not in sentence(answer) and len(sentence(answer)) < rules.FILE_BYTES / 20
    else:
        assert UNCHANGED in outcome
        assert answer["files"] == honest["files"] and len(honest["files"]) == 6  # with the initial values
        assert (answer["settings"], answer["variables"]) == (honest["settings"], honest["variables"])


def test_more_weights_than_a_file_holds_are_not_even_read(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(TINY + "WEIGHTS = " + repr(os.urandom(rules.FILE_BYTES)))
    with pytest.raises(Refused, match="larger than 20,000 bytes"):
        read(path)
