"""What a rank that trains a submission can't do: open other files, and take more memory than there is for it."""

import subprocess
import sys

import pytest

from helpers import ROOT

CONFINED = """
import sys
from course.challenge.confinement import confine, limit_memory

mine, others, run = sys.argv[1:]
if not confine([mine], [run], network=True):
    sys.exit("no Landlock")
limit_memory(64 * 2**20)
open(mine).read()
open(run + "/result.json", "w").close()
for path, mode in ((others, "r"), (others, "w"), (mine, "w")):
    try:
        open(path, mode)
        sys.exit(f"opened {path}")
    except PermissionError:
        pass
held = bytearray(16 * 2**20)
try:
    bytearray(128 * 2**20)
    sys.exit("took the memory")
except MemoryError:
    print("confined")
"""


def test_a_rank_opens_what_it_is_given_and_takes_no_more_memory_than_it_may(tmp_path):
    for name in ("mine", "others"):
        (tmp_path / name).write_text("")
    (tmp_path / "run").mkdir()
    paths = [str(tmp_path / name) for name in ("mine", "others", "run")]
    command = [sys.executable, "-c", CONFINED, *paths]
    done = subprocess.run(command, text=True, capture_output=True, env={"PYTHONPATH": str(ROOT / "source_code")})
    if "no Landlock" in done.stderr:
        pytest.skip("the kernel has no Landlock")
    assert done.stdout == "confined\n", done.stderr
