"""What the installed Horovod was built with."""

import json
import subprocess
import sys
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ddl.errors import CourseError
from ddl.records.jsonfiles import DamagedFile, read_json, write_json
from ddl.records.paths import cache_dir


class BrokenHorovod(CourseError, RuntimeError):
    """Horovod is not installed, cannot be loaded, or was built without TensorFlow and PyTorch."""


def built_with() -> dict[str, bool]:
    """Return what Horovod was built with, ``{"gloo": bool, "mpi": bool, "nccl": bool, "cuda": bool}``.

    Another process loads it, which imports TensorFlow or PyTorch; so the answer is cached until Horovod's library
    changes.
    """
    library = _library()
    stat = library.stat()
    key = zlib.crc32(f"{library}:{stat.st_size}:{stat.st_mtime_ns}".encode())
    path = cache_dir() / f"horovod-build-{key:08x}.json"
    with suppress(DamagedFile):
        if known := read_json(path, {"gloo": bool}):
            return known
    code = (
        f"import json, horovod.{library.parent.name} as hvd; print(json.dumps({{n: bool(getattr(hvd, "
        "n + '_built')()) for n in ('gloo', 'mpi', 'nccl', 'cuda')}))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if answer.returncode:
        raise BrokenHorovod(f"Horovod cannot be loaded: {answer.stderr.strip().splitlines()[-1]}")
    built = json.loads(answer.stdout.splitlines()[-1])
    with suppress(OSError):  # the disk is full or read-only: ask again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, built)
    return built


def _library():
    """Return the path of Horovod's library, for TensorFlow or else for PyTorch."""
    spec = find_spec("horovod")
    if not spec:
        raise BrokenHorovod("Horovod is not installed: run `make setup`")
    for framework in ("tensorflow", "torch"):
        for library in Path(spec.origin).parent.glob(f"{framework}/mpi_lib*.so"):
            return library
    raise BrokenHorovod(
        "this Horovod was built without TensorFlow and without PyTorch: remove it and its cached wheel, then run "
        "`make setup` again"
    )
