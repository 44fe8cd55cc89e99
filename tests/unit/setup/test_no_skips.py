"""In the full run a skipped test counts as a failure, and an expected failure does not."""

import subprocess
import sys

from helpers import ROOT


def test_skips_are_failures_that_name_what_is_missing(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_skips(): pytest.skip('no browser')\n"
        "@pytest.mark.skipif(True, reason='no cluster')\n"
        "def test_marked(): pass\n"
        "@pytest.mark.xfail\n"
        "def test_expected(): assert False\n"
    )
    (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    plugin = ["-p", "tests.plugins.no_skips", "--continue-on-collection-errors"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", *plugin, "-ra", tmp_path],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    said = result.stdout
    assert result.returncode == 1
    assert "1 failed, 1 passed, 1 xfailed, 2 errors" in said
    for missing in ("no browser", "no cluster", "no_such_module"):
        assert "skipped in the full run" in said and missing in said
