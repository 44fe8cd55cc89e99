"""What scripts and the package import on a rank: nothing that only tables and figures need."""

import json
import os
import subprocess
import sys

import pytest

from helpers import ROOT

pytest.importorskip("tensorflow")
pytest.importorskip("horovod.tensorflow")

SCRIPTS = ROOT / "source_code"

# Runs one script after another, short of their main(), and notes which of the course's own modules ask for
# pandas or matplotlib. (Keras imports pandas by itself, where it is installed.)
PROBE = """
    import builtins, json, runpy, sys
    real, asked = builtins.__import__, {}

    def noted(name, globals=None, *rest, **options):
        importer = (globals or {}).get("__name__", "")
        if name.split(".")[0] in ("pandas", "matplotlib") and importer.split(".")[0] in ("ddl", "imported"):
            asked.setdefault(script, []).append([importer, name])
        return real(name, globals, *rest, **options)

    builtins.__import__ = noted
    for script in sys.argv[1:]:
        runpy.run_path(script, run_name="imported")
        for name in [name for name in sys.modules if name.startswith("ddl")]:
            del sys.modules[name]  # the next script imports it anew
    print(json.dumps(asked))
"""


def test_no_script_imports_pandas_or_matplotlib_on_a_rank(script):
    scripts = [str(path) for path in (*SCRIPTS.glob("*.py"), *SCRIPTS.glob("strategies/*.py"))]
    assert len(scripts) >= 18
    environment = {key: value for key, value in os.environ.items() if key != "DDL_RUN_DIR"}
    rank = [sys.executable, "-m", "ddl.rank", "--threads", "1", script(PROBE), *scripts]
    done = subprocess.run(rank, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
