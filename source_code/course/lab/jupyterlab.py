"""JupyterLab for the course: an attendee's files and tools, and kernels that leave Horovod's ports alone."""

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir

import ddl.server
from course.lab.access import private

__all__ = ["open_lab"]


ROOT = re.compile("--(ServerApp.root_dir|notebook-dir)=")  # JupyterLab's own options
START = "Start_Here.ipynb"
SETTINGS = Path(__file__).with_name("settings")
FILES = "--ServerApp.contents_manager_class=course.lab.files."
# A kernel's connection file plus the number of its last channel.
SOCKET_NAME = f"kernel-{'0' * 36}-ipc-5"


def open_lab(arguments: Sequence[str] = ()):
    """Replace this process with a JupyterLab server at ``Start_Here.ipynb``.

    Kernels use sockets in a private folder, not TCP, so other users of a shared machine cannot reach them. It also
    avoids a clash with Horovod: the server keeps polling the ports of an ended kernel, and Gloo mistakes the first
    connection to its port for another rank's.

    `arguments` are JupyterLab's own, such as ``--port=8889``; ``--all`` also lists maintainers' files and nbgrader's
    extensions. On a class's hub, this is the attendee's server, on their copy of the course.
    """
    from course.lab.class_checkout import check_out_course

    seat = check_out_course()
    view = [f"{FILES}CourseFiles"]
    # Load this package as a server extension, which shows runs; for attendees, disable nbgrader.
    configured = [str(SETTINGS), str(Path(ddl.server.__file__).with_name("settings"))]
    if "--all" not in arguments:
        view = [f"{FILES}AttendeesFiles", f"--LabApp.app_settings_dir={SETTINGS}"]
        configured.append(str(SETTINGS / "attendee"))
    configured += filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(configured)
    # Let terminals find `ddl`: a login shell, the default without a terminal, would reset PATH.
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    shell = os.environ.get("SHELL") or shutil.which("bash") or "sh"
    if not _takes_sockets(jupyter_runtime_dir()):
        os.environ["JUPYTER_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="jupyter-")
    os.execv(
        sys.executable,
        [
            sys.executable,
            "-m",
            *(["jupyterhub.singleuser"] if seat else ["jupyterlab"]),
            *([] if any(map(ROOT.match, arguments)) else [f"--ServerApp.root_dir={seat or os.getcwd()}"]),
            f"--LabApp.default_url=/lab/tree/{START}",
            "--KernelManager.transport=ipc",
            f"--ServerApp.terminado_settings={ {'shell_command': [shell]} }",
            *view,
            *([] if seat else private(arguments)),  # JupyterHub authenticates by itself
            *(argument for argument in arguments if argument != "--all"),
        ],
    )


def _takes_sockets(folder):
    """Return whether a folder supports sockets: its path may be too long, or its file system lack them."""
    path = os.path.join(folder, f"{SOCKET_NAME}{os.getpid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(path)
        os.unlink(path)
    except OSError:
        return False
    return True
