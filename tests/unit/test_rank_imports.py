"""What a rank imports: nothing that only tables and figures need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("horovod.tensorflow")

SCRIPTS = Path(__file__).resolve().parents[2] / "source_code"

# Becomes one script after another, short of their main(), as the rank that runs this does. Whatever
# imports pandas gets a module that loads itself when it is first used: pandas.core is then there.
PROBE = """
    import json, runpy, sys
    loaded = {}
    for script in sys.argv[1:]:
        runpy.run_path(script, run_name="imported")
        loaded[script] = [name for name in ("pandas.core", "matplotlib") if name in sys.modules]
    print(json.dumps(loaded))
"""


def test_no_script_imports_pandas_or_matplotlib_on_a_rank(script):
    scripts = [str(path) for path in (*SCRIPTS.glob("*.py"), *SCRIPTS.glob("*/*.py")) if "ddl" not in path.parts[-2:]]
    assert len(scripts) >= 18
    environment = {key: value for key, value in os.environ.items() if key != "DDL_RUN_DIR"}
    rank = [sys.executable, "-m", "ddl.rank", "--threads", "1", script(PROBE), *scripts]
    done = subprocess.run(rank, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {script: names for script, names in json.loads(done.stdout).items() if names}


def test_a_rank_has_pandas_all_the_same(script):
    uses = script("""
        import sys, pandas
        print("pandas.core" in sys.modules, pandas.DataFrame({"a": [1, 2]})["a"].sum())
    """)
    rank = [sys.executable, "-m", "ddl.rank", "--threads", "1", uses]
    done = subprocess.run(rank, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "3"], done.stderr
