"""`ddl doctor` starts two ranks."""

from dataclasses import replace

import pytest

from ddl.diagnose import site as diagnose
from ddl.launcher.site import Site
from ddl.records.machine import host_name


@pytest.mark.slow
def test_two_ranks_run_for_real(tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path))
    site = replace(Site.detect(), gpus_per_node=0)
    found = diagnose.two_ranks(site)
    assert found.state == "OK", found.detail
    assert found.detail.count(f"{host_name()} (") == 2
