"""JupyterHub's settings for a class on one server; a class's own `settings.py` is read last.

It can contain any JupyterHub setting, such as `c.Spawner.mem_limit = "8G"`.
"""

import getpass
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from course.lab.attendee import CLASS
from course.lab.class_checkout import COURSE
from course.lab.handin import EXCHANGE
from ddl.records.paths import data_dir

folder = Path(os.environ["DDL_HUB"])
c = get_config()  # noqa: F821 - what JupyterHub reads a settings file with

accounts = bool(os.environ.get("DDL_HUB_ACCOUNTS"))
c.Authenticator.admin_users = {getpass.getuser()}
c.Authenticator.allow_all = True  # anyone with the password; set c.Authenticator.allowed_users to restrict it
c.Authenticator.username_pattern = r"[a-z0-9][a-z0-9._@-]*"  # names of folders, and of hand-ins
if accounts:
    c.JupyterHub.authenticator_class = "pam"
else:
    c.JupyterHub.authenticator_class = "shared-password"
    c.SharedPasswordAuthenticator.user_password = (folder / "hub" / "password").read_text()
    c.SharedPasswordAuthenticator.admin_password = (folder / "hub" / "admin-password").read_text()

c.JupyterHub.template_vars = {
    "course": "Distributed deep learning, by doing it",
    "what_to_type": (
        "Username and password are those of your account on this system."
        if accounts
        else "Username: the id that your instructor has given you, or else a name of your own in small letters and "
        "digits, such as ada01. Type the same one each time: your work goes by it. "
        "Password: the one of the class, which your instructor tells you."
    ),
}
c.JupyterHub.template_paths = [str(Path(__file__).with_name("templates"))]
c.JupyterHub.bind_url = os.environ["DDL_HUB_URL"]
c.ConfigurableHTTPProxy.command = [
    str(Path(sys.executable).with_name("configurable-http-proxy")),
    "--log-level=warning",
    "--proxy-timeout=3600000",  # ms: the proxy buffers responses, and a start's response takes as long as the start
]
c.JupyterHub.db_url = f"sqlite:///{folder / 'hub' / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(folder / "hub" / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(folder / "hub" / "proxy.pid")

# An attendee's server: JupyterLab in a copy of the course, with limits, and launches that take turns.
c.JupyterHub.spawner_class = "hub.spawners." + ("OwnAccount" if accounts else "OwnFolder")
c.Spawner.cmd = [sys.executable, "-m", "ddl.cli", "lab"]
c.Spawner.args = ["--allow-root"] * (os.geteuid() == 0)
c.Spawner.default_url = "/lab/tree/Start_Here.ipynb"
c.Spawner.start_timeout = c.Spawner.http_timeout = 180  # s: a whole class may start at once
c.Spawner.cpu_limit = 2
c.Spawner.mem_limit = "4G"
c.Spawner.environment = {
    COURSE: str(folder / "course.bundle"),
    EXCHANGE: str(folder / "exchange"),
    CLASS: str(folder / "table"),
    **({"DDL_DATA_DIR": str(data_dir())} if os.environ.get("DDL_DATA_DIR") or not accounts else {}),
}
c.ClassSpawner.folder = str(folder)

if (folder / "settings.py").exists():
    load_subconfig("settings.py", path=str(folder))  # noqa: F821
