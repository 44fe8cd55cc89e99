"""nbgrader's formgrader on a course folder, for marking written answers."""

import os
import sys
from collections.abc import Sequence

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from course.lab.access import private
from marking.course import GRADING, Course

OPTIONS = (
    "--ServerApp.default_url=/formgrader",
    "--ServerApp.kernel_spec_manager_class=marking.formgrader.NoKernels",
    "--ServerApp.terminals_enabled=False",
)


class NoKernels(KernelSpecManager):
    """No kernels, so that hand-ins cannot be run by mistake."""

    def get_kernel_spec(self, kernel_name):
        raise NoSuchKernel(kernel_name)


def open_formgrader(course: Course, arguments: Sequence[str] = ()) -> None:
    """Become a Jupyter server with the formgrader; does not return. `arguments` are Jupyter's, as ``--port=8889``."""
    course.prepare()
    (course.folder / "exchange").mkdir(exist_ok=True)  # or it warns of one that nobody uses
    os.chdir(course.folder)
    os.environ["PYTHONPATH"] = str(GRADING)
    options = [*OPTIONS, f"--ServerApp.root_dir={course.folder}", *private(arguments), *arguments]
    os.execv(sys.executable, [sys.executable, "-m", "jupyter_server", *options])
