"""A class's hub with servers as jobs of a real Slurm: the waiting page has the reason, then the server starts."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import closing

import cluster
import pytest
import requests

from helpers import ROOT, free_ports, until

pytestmark = pytest.mark.nightly("grading/hub/*")
pytest.importorskip("jupyterhub", reason="jupyterhub is not installed")

TOKEN = "a-token-of-this-test"
SETTINGS = """
from traitlets import default

load_subconfig({example!r})
from hub.slurm import OnSlurm


class Here(OnSlurm):
    '''One host has all nodes, and no account for a test: what attendees have is in the class's folder.'''

    @default("req_homedir")
    def _home(self):
        return {folder!r}

    def user_env(self, env):
        return env | {{"HOME": {folder!r}, "USER": self.user.name, "SHELL": "/bin/sh"}}


c = get_config()
c.JupyterHub.spawner_class = Here
c.JupyterHub.hub_port = {hub_port}
c.JupyterHub.hub_ip = c.JupyterHub.hub_connect_ip = "127.0.0.1"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.JupyterHub.services = [{{"name": "test", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [{{"name": "test", "services": ["test"], "scopes": ["admin:users", "admin:servers"]}}]
c.OnSlurm.exec_prefix = ""
c.OnSlurm.req_partition = "gpu"
c.OnSlurm.req_memory = "1000"
c.OnSlurm.req_runtime = "10"
c.OnSlurm.req_srun = ""
c.OnSlurm.batch_script = OnSlurm.batch_script.default_value.replace("#SBATCH --get-user-env=L\\n", "")
c.OnSlurm.daemon_resolver = dict.fromkeys({nodes!r}, "127.0.0.1")
c.Spawner.environment.update({{"SLURM_CONF": {conf!r}}})
"""


@pytest.fixture
def ask(slurm_conf, tmp_path):
    """Start a hub on this Slurm; return a function that asks its API."""
    folder = tmp_path / "class"
    folder.mkdir()
    port, hub_port, proxy_port = free_ports(3)
    keys = dict(example=str(ROOT / "grading/hub/slurm_settings.py"), folder=str(folder), hub_port=hub_port)
    keys |= dict(proxy_port=proxy_port, token=TOKEN, nodes=cluster.NODES, conf=str(slurm_conf))
    (folder / "settings.py").write_text(SETTINGS.format(**keys))
    environment = os.environ | {"PYTHONPATH": str(ROOT / "grading"), "SLURM_CONF": str(slurm_conf)}
    log = tmp_path / "hub.log"
    with open(log, "wb") as file:
        command = [sys.executable, "-m", "hub", "--folder", folder, "--port", str(port)]
        hub = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)

    def ask(path, method="GET"):
        url = f"http://127.0.0.1:{hub_port}/hub/api/{path}"  # past the proxy, which does not stream
        request = urllib.request.Request(url, method=method, headers={"Authorization": f"token {TOKEN}"})
        return closing(urllib.request.urlopen(request, timeout=60))

    def page():
        """Return the text of ann's waiting page, behind the proxy."""
        with requests.Session() as session:
            url = f"http://127.0.0.1:{port}/hub"
            session.get(f"{url}/login")
            password = (folder / "hub" / "password").read_text()
            xsrf = session.cookies.get("_xsrf", path="/hub/")
            session.post(f"{url}/login?next=/hub/home", data=dict(username="ann", password=password, _xsrf=xsrf))
            return session.get(f"{url}/spawn-pending/ann").text

    ask.page = page

    def answers():
        assert hub.poll() is None, log.read_text(errors="replace")
        try:
            with ask(""):
                return True
        except OSError:
            return False

    try:
        until(answers, 90, lambda: log.read_text(errors="replace")[-3000:])
        yield ask
        print(log.read_text(errors="replace")[-6000:])
    finally:
        hub.send_signal(signal.SIGTERM)
        hub.wait(60)
        cluster.end_jobs({"SLURM_CONF": str(slurm_conf), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


def test_waiting_page_shows_slurms_reason(ask, slurm_conf):
    environment = os.environ | {"SLURM_CONF": str(slurm_conf)}

    def slurm(*command):
        return subprocess.check_output(command, env=environment, text=True).strip()

    full = slurm("sbatch", "--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    until(lambda: slurm("squeue", "-h", "-j", full, "-o", "%T") == "RUNNING", 30)
    with ask("users/ann", "POST"), ask("users/ann/server", "POST") as answer:
        assert answer.status == 202  # it waits
    shown = ask.page()
    assert "waits: Resources" in shown and 'http-equiv="refresh"' in shown
    messages = []
    with ask("users/ann/server/progress") as stream:
        for line in stream:
            if line.startswith(b"data:"):
                messages.append(json.loads(line[5:]))
            if full and any("waits: Resources" in each["message"] for each in messages):
                slurm("scancel", full)
                full = ""
            if messages and (messages[-1].get("ready") or messages[-1].get("failed")):
                break
    assert messages[-1].get("ready"), messages
    assert any("runs: your server starts" in each["message"] for each in messages), messages
    with ask("users/ann") as answer:
        assert json.loads(answer.read())["servers"][""]["ready"]
    with ask("users/ann/server", "DELETE"):
        until(lambda: not slurm("squeue", "-h", "-n", "spawner-jupyterhub", "-t", "RUNNING"), 60)
