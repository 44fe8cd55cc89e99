"""What scripts and the package import on a rank: nothing that only tables and figures need."""

import json
import sys

import pytest

from helpers import ROOT

pytest.importorskip("tensorflow")
pytest.importorskip("horovod.tensorflow")

SCRIPTS = ROOT / "source_code"
PYTORCH = "torch_ddp.py"  # an extra, which may not be here; tests/launch/test_torch.py looks at it
IMPORTED = [str(path) for path in (*SCRIPTS.glob("*.py"), *SCRIPTS.glob("strategies/*.py")) if path.name != PYTORCH]

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


def rank(folder):
    # A rank that no launch has started: it keeps no record.
    (folder / "probe.py").write_text(PROBE)
    return [sys.executable, "-m", "ddl.rank", "--threads", "1", folder / "probe.py", *IMPORTED], {"DDL_RUN_DIR": ""}


OUTPUTS = {"asked": rank}


@pytest.fixture(scope="module")
def asked(output_of):
    """Which of the course's modules asked for what, by script."""
    return json.loads(output_of("asked")[1].splitlines()[-1])


def test_no_script_imports_pandas_or_matplotlib_on_a_rank(asked):
    assert len(IMPORTED) >= 18
    assert asked == {}
