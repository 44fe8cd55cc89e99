"""The process that runs a submission's Python: ``python -I -m course.challenge.builder``.

It reads one line of JSON (the file's text, the baseline's, the seeds), and answers with one: graphs and initial values,
or the sentence that says why there are none. It has no data, and keeps itself from files and network where the kernel
has Landlock. Its answer is trusted no more than the submission: `graphs.Program` checks it on the ranks.
"""

import contextlib
import os
import tempfile

from course.challenge.confinement import confine
from course.challenge.rules import Refused
from course.grader.wire import Wire

ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",  # a graph is the same wherever it is traced
    **dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"),
}


def main() -> None:
    """Answer the one request of standard input; then wait for the parent to end this, and what the file has started."""
    wire = Wire(heard=True)
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from course.challenge.submission import Submission  # and TensorFlow, before the doors close

    nowhere = open(os.devnull, "w")
    confine(writes=[tempfile.gettempdir()])

    def answer(request):
        try:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                return Submission(request["name"], request["source"], request["baseline"]).built(request["seeds"])
        except Refused as error:
            return {"refused": str(error)}

    wire.serve(answer)
    os._exit(0)


if __name__ == "__main__":
    main()
