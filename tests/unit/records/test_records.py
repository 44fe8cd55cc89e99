import json
import math

import numpy
import pytest

from ddl.records import folder, jsonfiles


def test_json_is_strict_and_whole(tmp_path):
    path = tmp_path / "result.json"
    written = {
        "nan": math.nan,
        "inf": [math.inf, 1.0],
        "np": numpy.float32(0.5),
        "array": numpy.arange(2),
        "path": path,
    }
    jsonfiles.write_json(path, written)
    read = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert read == {"nan": None, "inf": [None, 1.0], "np": 0.5, "array": [0, 1], "path": str(path)}
    with pytest.raises(TypeError):
        jsonfiles.write_json(path, {"a": object()})
    assert jsonfiles.read_json(path) == read and list(tmp_path.iterdir()) == [path]


def test_a_line_still_being_written_is_left_for_later(tmp_path):
    path = tmp_path / "events.jsonl"
    assert jsonfiles.read_json_lines(path) == []
    jsonfiles.append_json_line(path, {"event": "step"})
    with open(path, "a") as file:
        file.write('{"event": "st')
    assert jsonfiles.read_json_lines(path) == [{"event": "step"}]


STACK = """Thread 0x01 (most recent call first):
  File "/lib/python3.11/threading.py", line 5 in wait

Current thread 0x02 (most recent call first):
  File "/lib/horovod/tensorflow/mpi_ops.py", line 130 in _allreduce
  File "/home/me/train.py", line 6 in <module>
  File "/course/source_code/ddl/start/worker.py", line 80 in _become
  File "<frozen runpy>", line 88 in _run_code
"""


def test_a_stack_is_the_main_thread_from_the_script_down(tmp_path):
    path = tmp_path / "stack-0.txt"
    assert folder.stack_of(path) == ""
    path.write_text(STACK)
    assert folder.stack_of(path).splitlines() == [
        '  File "/lib/horovod/tensorflow/mpi_ops.py", line 130 in _allreduce',
        '  File "/home/me/train.py", line 6 in <module>',
    ]
