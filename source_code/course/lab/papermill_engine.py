"""An engine for papermill: `papermill --engine lessons notebooks/4.Convergence.ipynb out.ipynb -p size smoke`.

Plain papermill counts the error of each question that is not answered, and exits with 1 for every notebook that a
student has not finished. With this engine such an error is a line of output, and any other fails as usual. If the
notebook's metadata say that it is answered, as `make run` writes, a missing answer fails.
"""

from nbformat import v4
from papermill.engines import NBClientEngine


class LessonEngine(NBClientEngine):
    """Executes a notebook as papermill does; what is not answered yet is no failure."""

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **options):
        result = super().execute_managed_notebook(nb_man, kernel_name, **options)
        if nb_man.nb.metadata.get("lessons", {}).get("answered"):
            return result
        for cell in nb_man.nb.cells:
            if cell.cell_type == "code" and cell.metadata.get("nbgrader"):
                cell.outputs = [_without_error(output, cell.metadata.nbgrader.grade_id) for output in cell.outputs]
        return result


def _without_error(output, grade_id):
    if output.output_type != "error" or output.ename != "NotImplementedError":
        return output
    return v4.new_output("stream", name="stderr", text=f"question {int(grade_id[1:3])}: not answered ({grade_id})\n")
