"""nbgrader's formgrader on a course folder, where written answers get their marks."""

import os
import sys

from marking.course import Course

__all__ = ["open_formgrader"]

# No kernel and no terminal: what students handed in is read there, and cannot be run by mistake.
OPTIONS = (
    "--ServerApp.jpserver_extensions=nbgrader.server_extensions.formgrader=True",
    "--ServerApp.default_url=/formgrader",
    "--ServerApp.terminals_enabled=False",
    "--KernelSpecManager.allowed_kernelspecs=none",
    "--KernelSpecManager.ensure_native_kernel=False",
)


def open_formgrader(course: Course, arguments=()) -> None:
    """Become a Jupyter server with the formgrader; its address has a token. Does not return.

    Parameters
    ----------
    course : Course
    arguments : sequence of str
        The server's own, such as ``--port=8889``.
    """
    course.settle()
    os.chdir(course.folder)
    os.execv(sys.executable, [sys.executable, "-m", "jupyter_server", *OPTIONS,
                              f"--ServerApp.root_dir={course.folder}", *arguments])
