"""Who may reach the course's Jupyter servers."""

import json
import os
import subprocess
import sys

import pytest

from course.lab.jupyterlab import open_lab
from helpers import ROOT

SERVER = """
import json, sys
from jupyter_server.serverapp import ServerApp
app = ServerApp()
app.initialize(sys.argv[1:], find_extensions=False, new_httpserver=False)
print(json.dumps([app.ip, app.identity_provider.auth_enabled, app.identity_provider.token]))
"""
OPEN = """
c.{}.token = ""
c.ServerApp.ip = "0.0.0.0"
"""


@pytest.fixture
def command_line(monkeypatch, tmp_path):
    """Return a function that returns the options which the course's JupyterLab starts with."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(os, "environ", dict(os.environ) | {"JUPYTER_RUNTIME_DIR": str(tmp_path)})
    found = []
    monkeypatch.setattr(os, "execv", lambda program, words: found.append(words[3:]))

    def line(*arguments):
        open_lab(arguments)
        return found[-1]

    return line


def serve(options, folder, configuration):
    """Return the address, whether it asks who comes, and the token of a server with a user's configuration."""
    (folder / "jupyter_server_config.py").write_text(configuration)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    environment |= {"JUPYTER_CONFIG_DIR": str(folder), "JUPYTER_RUNTIME_DIR": str(folder)}
    words = [sys.executable, "-c", SERVER, "--allow-root", *options]
    return json.loads(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)


LATER = pytest.mark.slow("source_code/course/lab/*")


@pytest.mark.parametrize("section", [pytest.param("IdentityProvider", marks=LATER), "ServerApp"])
def test_a_users_own_configuration_opens_no_server_of_the_course(command_line, tmp_path, section):
    ip, asks, token = serve(command_line(), tmp_path, OPEN.format(section))
    assert ip == "127.0.0.1" and asks and len(token) > 30


@LATER
def test_a_users_password_is_kept(command_line, tmp_path):
    configuration = 'c.PasswordIdentityProvider.hashed_password = "argon2:x"\n' + OPEN.format("IdentityProvider")
    assert serve(command_line(), tmp_path, configuration) == ["127.0.0.1", True, ""]


@LATER
def test_options_of_the_command_decide(command_line, tmp_path):
    options = command_line("--ip=0.0.0.0", "--IdentityProvider.token=")
    assert serve(options, tmp_path, "") == ["0.0.0.0", False, ""]
    assert serve(command_line("--IdentityProvider.token=mine"), tmp_path, "") == ["127.0.0.1", True, "mine"]
