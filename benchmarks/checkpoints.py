"""Time how long a training stands still for a checkpoint that a thread writes, against one that it waits for.

    .venv/bin/python benchmarks/checkpoints.py      # 10 pairs of each size, half a minute

`course.training.checkpoint.Checkpoints` does the first every so many steps, and the second where a run must end.
"""

import os
import statistics
import tempfile
import time

SIZES = {"20 MB": 5, "200 MB": 50}  # millions of weights
PAIRS = 10


class Silent:
    """A journal that keeps nothing."""

    recorder = True

    def state(self):
        return {}

    def event(self, *_, **__):
        pass


def stands_still(variables):
    """Return seconds for a copy that is written beside the training, and for one that is waited for, in turns."""
    import contextlib

    from course.training import checkpoint

    journal = Silent()
    journal.paused = contextlib.nullcontext
    checkpoint.average_statistics = lambda statistics: None
    beside, waited = [], []
    for pair in range(PAIRS):
        for seconds, at_once in ((beside, False), (waited, True)):
            checkpoints = checkpoint.Checkpoints(variables, {}, every=1)
            start = time.perf_counter()
            checkpoints.save_if_due(pair + 1, journal, dict, at_once=at_once)
            seconds.append(time.perf_counter() - start)
            checkpoints.finish(journal)
    return statistics.median(beside), statistics.median(waited)


def main():
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        os.environ["DDL_RUN_DIR"] = folder
        for name, millions in SIZES.items():
            variables = [tf.Variable(tf.random.normal([1_000_000])) for _ in range(millions)]
            beside, waited = stands_still(variables)
            print(f"{name}: {1000 * beside:.0f} ms beside, {1000 * waited:.0f} ms waited for: {beside / waited:.2f}")


if __name__ == "__main__":
    main()
