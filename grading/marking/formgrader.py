"""nbgrader's formgrader on a course folder, for marking written answers."""

import os
import sys
from collections.abc import Sequence

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from course.lab.handin import EXCHANGE
from marking.course import GRADING, Course

OPTIONS = (
    "--ServerApp.default_url=/formgrader",
    "--ServerApp.kernel_spec_manager_class=marking.formgrader.NoKernels",
    "--ServerApp.terminals_enabled=False",
)


class NoKernels(KernelSpecManager):
    """No kernels, so that hand-ins cannot be run by mistake."""

    def find_kernel_specs(self):
        return {}

    def get_kernel_spec(self, kernel_name):
        raise NoSuchKernel(kernel_name)


def open_formgrader(course: Course, arguments: Sequence[str] = ()) -> None:
    """Become a Jupyter server with the formgrader; does not return. `arguments` are Jupyter's, as ``--port=8889``."""
    course.settle()
    os.chdir(course.folder)
    os.environ["PYTHONPATH"] = str(GRADING)
    options = list(OPTIONS)
    if EXCHANGE not in os.environ:  # or it warns of one that nobody uses
        unused = course.folder / "exchange"
        unused.mkdir(exist_ok=True)
        options.append(f"--Exchange.root={unused}")
    os.execv(
        sys.executable,
        [sys.executable, "-m", "jupyter_server", *options, f"--ServerApp.root_dir={course.folder}", *arguments],
    )
