"""JupyterLab for the course: an attendee's files and tools, and kernels that leave Horovod's ports alone."""

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir

import ddl.server

__all__ = ["open_lab"]


START = "Start_Here.ipynb"
SETTINGS = Path(__file__).with_name("settings")
FILES = "--ServerApp.contents_manager_class=course.lab.files."
# A kernel's connection file plus the number of its last channel.
SOCKET_NAME = f"kernel-{'0' * 36}-ipc-5"


def open_lab(arguments: Sequence[str] = ()):
    """Become a JupyterLab server at ``Start_Here.ipynb``; does not return.

    Kernels are reached through sockets in a folder of the user's own, not over TCP: nobody else on a shared machine can
    reach them there. Nor can the server meet Horovod: it goes on looking for a kernel that has ended, several times a
    second, and Gloo takes the first connection to a port of its own for the other rank's.

    `arguments` are JupyterLab's own, such as ``--port=8889``; ``--all`` lists a maintainer's files, too, and what
    nbgrader adds. A class's hub starts this for an attendee: it is then their server, on their own copy of the course.
    """
    from course.lab.class_checkout import check_out_course

    seat = check_out_course()
    view = [f"{FILES}CourseFiles"]
    # Has the server take in this package, which shows runs; for attendees also leave nbgrader out.
    configured = [str(SETTINGS), str(Path(ddl.server.__file__).with_name("settings"))]
    if "--all" not in arguments:
        view = [f"{FILES}AttendeesFiles", f"--LabApp.app_settings_dir={SETTINGS}"]
        configured.append(str(SETTINGS / "attendee"))
    configured += filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(configured)
    # Terminals find `ddl`: a login shell, which the server starts where it has no terminal itself, would reset PATH.
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    shell = os.environ.get("SHELL") or shutil.which("bash") or "sh"
    if not _takes_sockets(jupyter_runtime_dir()):
        os.environ["JUPYTER_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="jupyter-")
    os.execv(
        sys.executable,
        [
            sys.executable,
            "-m",
            *(["jupyterhub.singleuser", f"--ServerApp.root_dir={seat}"] if seat else ["jupyterlab"]),
            f"--LabApp.default_url=/lab/tree/{START}",
            "--KernelManager.transport=ipc",
            f"--ServerApp.terminado_settings={ {'shell_command': [shell]} }",
            *view,
            *(argument for argument in arguments if argument != "--all"),
        ],
    )


def _takes_sockets(folder):
    """Whether sockets can be made in a folder: its path may be too long, or its file system lack them."""
    path = os.path.join(folder, f"{SOCKET_NAME}{os.getpid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(path)
        os.unlink(path)
    except OSError:
        return False
    return True
