"""papermill on notebooks as students have them: unanswered questions fail nothing, with the course's engine."""

import subprocess
import sys

import nbformat
import pytest

from doubling import SOLVED, STUBS, write_lesson

UNANSWERED = SOLVED | {"q01_double": STUBS["q01_double"]}


def run(path, *options):
    command = [sys.executable, "-m", "papermill", path, path.with_name("out.ipynb"), "-k", "python3", *options]
    done = subprocess.run([*command, "--no-progress-bar"], cwd=path.parent, capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_only_other_errors_than_missing_answers_fail(tmp_path):
    path = write_lesson(tmp_path, UNANSWERED)
    assert run(path)[0] == 1
    status, said = run(path, "--engine", "lessons")
    assert status == 0, said
    executed = nbformat.read(path.with_name("out.ipynb"), as_version=4)
    texts = [output.get("text", "") for cell in executed.cells for output in cell.get("outputs", ())]
    assert [text for text in texts if "not answered" in text]
    executed.metadata["lessons"] = {"answered": True}  # as `make run` writes: then no answer may be missing
    nbformat.write(executed, path)
    status, said = run(path, "--engine", "lessons")
    assert status == 1 and "NotImplementedError" in said
    wrong = write_lesson(tmp_path, SOLVED | {"q02_table": "table = 0"})
    status, said = run(wrong, "--engine", "lessons")
    assert status == 1 and "AssertionError" in said
