"""A submission's file: where it is found, what is refused, and what it takes from the baseline."""

import pytest

from course.challenge.rules import Refused
from course.challenge.submission import BASELINE, Submission, find, read
from ddl.errors import InputError

pytest.importorskip("tensorflow")


def test_submission_is_found_by_path_or_name(script, tmp_path):
    path = script("X = 1\n", "mine.py")
    assert find(path) == path and find("baseline.py") == BASELINE
    for missing in (tmp_path, "missing.py"):
        with pytest.raises(InputError, match="baseline.py, reference.py"):
            find(missing)


def test_missing_parts_come_from_the_baseline():
    found = Submission("mine.py", b"PEAK = 2.4\n")
    assert (found.PEAK, found.SAMPLES, found.prepare) == (2.4, 180_224, None)
    assert found.loss.__code__.co_filename == str(BASELINE)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SAMPLES = 1000\n", "SAMPLES must be a multiple"),
        ("SAMPLES = 2048.0\n", "SAMPLES must be a multiple"),
        ("SAMPLES = 0\n", "SAMPLES must be a multiple"),
        ("GHOST_BATCH = 1\n", "GHOST_BATCH must be"),
        ("GHOST_BATCH = 48\n", "GHOST_BATCH must be"),
        ("PRECISION = 'float16'\n", "PRECISION must be float32 or bfloat16"),
        ("COMPRESSION = True\n", "COMPRESSION must be none or fp16"),
        ("SAMPLE = 2048\n", "did you mean SAMPLES"),
    ],
)
def test_invalid_setting_is_refused(text, words):
    with pytest.raises(Refused, match=words):
        Submission("mine.py", text.encode())


@pytest.mark.parametrize(("text", "words"), [("#" * 20_001, "20,001 bytes"), ("def f(:\n", "not valid Python")])
def test_large_or_invalid_file_is_refused(script, text, words):
    with pytest.raises(Refused, match=words):
        read(script(text, "mine.py"))
