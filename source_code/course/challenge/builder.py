"""The process that runs a submission's Python: ``python -I -m course.challenge.builder``.

It reads one line of JSON (the file's text, the baseline's, the seeds), and answers with one: graphs and initial values,
or the sentence that says why there are none. It has no data, and keeps itself from files and network where the kernel
has Landlock. Its answer is trusted no more than the submission: `graphs.Program` checks it on the ranks.
"""

import contextlib
import json
import os
import sys
import tempfile

from course.challenge.confinement import confine
from course.challenge.rules import Refused

ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",  # a graph is the same wherever it is traced
    **dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"),
}


def main() -> None:
    """Answer the one request of standard input."""
    # Nothing prints into the answer, and what the submission prints fills no pipe.
    channel = os.dup(1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        from course.challenge.submission import Submission  # and TensorFlow, before the doors close

        nowhere = open(os.devnull, "w")
        confine(writes=[tempfile.gettempdir()])
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            answer = Submission(request["name"], request["source"], request["baseline"]).built(request["seeds"])
    except Refused as error:
        answer = {"refused": str(error)}
    with open(channel, "wb") as file:
        file.write(json.dumps(answer).encode() + b"\n")
    sys.stdin.read()  # until the parent ends it, with the processes that the submission has started
    os._exit(0)


if __name__ == "__main__":
    main()
