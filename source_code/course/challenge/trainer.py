"""The process in which a score trains a submission: ``python -I -m course.challenge.trainer``.

It answers two requests, each a line of JSON: the file, with the labels of its training images; and the private images,
without labels. Processor time is measured from outside, from the first request to the second answer, so nothing here
has to be protected from the file's code, which runs in this process.
"""

import base64
import contextlib
import os
import traceback

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}  # before TensorFlow reads them

import numpy as np
import tensorflow as tf

from course.challenge import rules
from course.challenge.submission import Submission
from course.challenge.training import Training
from course.grader.worker_pipe import MessagePipe


class Trainer:
    """One training, in two requests."""

    def train(self, request):
        """Run the file and train its model; reply with the untrained network's answers and the sample count."""
        shape = (request["count"], 32, 32, 3)
        with open(request["images"], "rb") as file:  # an inherited descriptor
            images = np.memmap(file, np.uint8, "c", shape=shape)
            labels = np.memmap(file, np.int32, "c", offset=images.nbytes)
        submission = Submission(request["name"], request["source"].encode())
        self.training = Training(submission, images, labels, request["seed"], request["secret"])
        untrained = self._classes(images[: rules.UNTRAINED_SAMPLES])
        samples = request["samples"] or submission.SAMPLES
        steps = samples // rules.GLOBAL_BATCH
        shown = self.training.prepare()
        for number, batch in self.training.order.batches(0, steps):
            self.training.step(number, batch, steps)
        self.training.finish()
        return {"untrained": untrained, "samples": samples + shown}

    def predict(self, request):
        """Classify the private images."""
        images = np.frombuffer(base64.b64decode(request["images"]), np.uint8).reshape(-1, 32, 32, 3)
        return {"classes": self._classes(images)}

    def _classes(self, images):
        logits = self.training.predict(images)
        return np.where(np.isfinite(logits).all(1), logits.argmax(1), -1).tolist()


def reason(error: BaseException, name: str) -> str:
    """Return an error in one sentence, with the line of the submission that raised it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    where = f"{name}, line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}: {' '.join(str(error).split())}"[:500]


def main() -> None:
    """Answer until the parent ends this process."""
    pipe, trainer, nowhere = MessagePipe(heard=True), Trainer(), open(os.devnull, "w")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)

    def answer(request):
        try:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                return getattr(trainer, request["do"])(request) if "do" in request else {}
        except BaseException as error:
            return {"failed": reason(error, request.get("name", ""))}

    pipe.serve(answer)


if __name__ == "__main__":
    main()
