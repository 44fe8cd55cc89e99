"""The server that `ddl lab` opens."""

import psutil
import pytest

from helpers import until

pytestmark = pytest.mark.slow
CHANNELS = 5


@pytest.mark.parametrize("name", ["short", "a" * 100])
def test_kernels_are_not_reached_over_tcp(start_lab, name, tmp_path):
    """Not even where the runtime folder's path is too long for a socket."""
    lab = start_lab(folder=tmp_path / name)
    kernel = lab.api("kernels", method="POST")["id"]
    server = psutil.Process(lab.process.pid)

    def channels():
        return {each.laddr for each in psutil.net_connections(kind="unix") if f"kernel-{kernel}-ipc-" in each.laddr}

    until(lambda: len(channels()) == CHANNELS, 60, "no kernel started")
    assert {each.laddr.port for each in server.net_connections(kind="inet")} == {lab.port}
    lab.stop_kernels()
    until(lambda: not channels(), 20, "the kernel did not end")
    assert {each.laddr.port for each in server.net_connections(kind="inet")} == {lab.port}
