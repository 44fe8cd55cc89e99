"""The server that `ddl lab` opens."""

import json
import re
import sys
from pathlib import Path

import psutil
import pytest
import websocket

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


def test_a_terminal_finds_the_course_s_command(lab):
    """Also where the server's output goes to a file, as here."""
    name = lab.api("terminals", method="POST")["name"]
    address = f"ws://127.0.0.1:{lab.port}/terminals/websocket/{name}?token={lab.token}"
    connection = websocket.create_connection(address, timeout=30)
    try:
        connection.send(json.dumps(["stdin", "echo found: $(command -v ddl).\r"]))
        said = ""
        while not (found := re.search(r"found: (/\S+)?\.", said)):
            kind, *words = json.loads(connection.recv())
            said += words[0] if kind == "stdout" else ""
    finally:
        connection.close()
        lab.api(f"terminals/{name}", method="DELETE")
    assert found[1] == str(Path(sys.executable).with_name("ddl"))
